/* What the driver and the runtime say about memory from cuMemAlloc and from the default pool, and about managed memory that the program
 * asked for itself. With an argument, this driver reports managed memory of pools as managed. */
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

/* The pool that the program sees is the one that it allocated from, not one that the library put in its place. */
static void check_pool_of(CUdeviceptr pointer, CUmemoryPool expected)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    CUmemoryPool pool = NULL, together = NULL;
    void *data[] = {&together};
    EQUAL(((get_attribute)found("libcuda.so.1", "cuPointerGetAttribute"))(&pool, which[0], pointer), 0);
    EQUAL(((get_attributes)found("libcuda.so.1", "cuPointerGetAttributes"))(1, which, data, pointer), 0);
    CHECK(pool == expected);
    CHECK(together == expected);
}

static void check_pools(unsigned are_shown)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUresult (*find_default)(CUmemoryPool *, CUdevice);
    CUmemoryPool default_pool, own;
    CUdeviceptr pooled, by_name, managed;
    *(void **)&find_default = found("libcuda.so.1", "cuDeviceGetDefaultMemPool");
    EQUAL(find_default(&default_pool, 0), 0);
    EQUAL(cu.MemAllocAsync(&pooled, 8 << 20, NULL), 0);
    EQUAL(cu.MemAllocFromPoolAsync(&by_name, 8 << 20, default_pool, NULL), 0);
    EQUAL(cu.MemPoolCreate(&own, &props), 0);
    EQUAL(cu.MemAllocFromPoolAsync(&managed, 8 << 20, own, NULL), 0);
    check(pooled, 0);
    check(by_name, 0);
    check(managed, are_shown);
    check_pool_of(pooled, default_pool);
    check_pool_of(by_name + 12345, default_pool);
    check_pool_of(managed, own);
}

int main(int argc, char **argv)
{
    (void)argv;
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
    check_pools(argc > 1);
    EQUAL(((get_attribute)found("libcuda.so.1", "cuPointerGetAttribute"))(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (uintptr_t)&pitch),
          CUDA_ERROR_INVALID_VALUE);
    EQUAL(cu.MemFree(plain), 0);
    return DONE();
}
