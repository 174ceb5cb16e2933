/* What the driver and the runtime say about memory from cuMemAlloc, and about managed memory that the program asked for itself. */
#include "lib_check.h"
#include "lib_driver.h"

typedef CUresult (*get_attribute)(void *, CUpointer_attribute, CUdeviceptr);
typedef CUresult (*get_attributes)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
struct runtime_attributes { int type, device; void *device_pointer, *host_pointer; long reserved[8]; };
enum { RUNTIME_DEVICE = 2, RUNTIME_MANAGED = 3 };

static void *found(const char *library, const char *name)
{
    void *function = dlsym(dlopen(library, RTLD_NOW), name);
    CHECK(function != NULL);
    return function;
}

static void *looked_up(const char *name, int version)
{
    CUresult (*ask)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    void *function = NULL;
    *(void **)&ask = found("libcuda.so.1", "cuGetProcAddress_v2");
    EQUAL(ask(name, &function, version, 0, NULL), 0);
    return function;
}

static void check_one_by_one(get_attribute get, CUdeviceptr pointer, unsigned managed)
{
    unsigned is_managed = 9, type = 9;
    void *host = &host;
    EQUAL(get(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer), 0);
    EQUAL(get(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), 0);
    EQUAL(get(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer), managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    EQUAL(is_managed, managed);
    EQUAL(type, CU_MEMORYTYPE_DEVICE);
}

static void check_together(get_attributes get, CUdeviceptr pointer, CUdeviceptr base, unsigned managed)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
    unsigned is_managed = 9, type = 9;
    CUdeviceptr start = 0;
    void *host = &host, *data[] = {&is_managed, &host, &type, &start};
    EQUAL(get(4, which, data, pointer), 0);
    EQUAL(is_managed, managed);
    EQUAL((uintptr_t)host, managed ? pointer : 0);
    EQUAL(type, CU_MEMORYTYPE_DEVICE);
    EQUAL(start, base);
}

static void check_runtime(const char *library, CUdeviceptr pointer, int type)
{
    int (*get)(struct runtime_attributes *, const void *);
    struct runtime_attributes attributes = {0};
    *(void **)&get = found(library, "cudaPointerGetAttributes");
    EQUAL(get(&attributes, (void *)(uintptr_t)pointer), 0);
    EQUAL(attributes.type, type);
    EQUAL((uintptr_t)attributes.device_pointer, pointer);
    EQUAL((uintptr_t)attributes.host_pointer, type == RUNTIME_MANAGED ? pointer : 0);
}

static void check(CUdeviceptr base, unsigned managed)
{
    CUdeviceptr inside = base + 12345;
    check_one_by_one((get_attribute)found("libcuda.so.1", "cuPointerGetAttribute"), inside, managed);
    check_one_by_one((get_attribute)looked_up("cuPointerGetAttribute", 4000), base, managed);
    check_together((get_attributes)found("libcuda.so.1", "cuPointerGetAttributes"), inside, base, managed);
    check_together((get_attributes)looked_up("cuPointerGetAttributes", 7000), base, base, managed);
    check_runtime("libcudart.so.12", inside, managed ? RUNTIME_MANAGED : RUNTIME_DEVICE);
    check_runtime("libcudart.so.13", inside, managed ? RUNTIME_MANAGED : RUNTIME_DEVICE);
}

int main(void)
{
    CUcontext context;
    CUdeviceptr plain, pitched, managed;
    size_t pitch;
    unsigned is_managed;
    if (lib_driver_find("dlsym") != 0)
        return 2;
    EQUAL(cu.Init(0), 0);
    EQUAL(cu.CtxCreate(&context, 0, 0), 0);
    EQUAL(cu.MemAlloc(&plain, 8 << 20), 0);
    EQUAL(cu.MemAllocPitch(&pitched, &pitch, 1 << 20, 8, 4), 0);
    EQUAL(cu.MemAllocManaged(&managed, 8 << 20, CU_MEM_ATTACH_GLOBAL), 0);
    check(plain, 0);
    check(pitched, 0);
    check(managed, 1);
    EQUAL(((get_attribute)found("libcuda.so.1", "cuPointerGetAttribute"))(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (uintptr_t)&pitch),
          CUDA_ERROR_INVALID_VALUE);
    EQUAL(cu.MemFree(plain), 0);
    return DONE();
}
