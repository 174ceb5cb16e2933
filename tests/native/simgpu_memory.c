/* Memory of every kind: allocation, charging, attributes, pools, virtual memory, arrays; copies and memsets. */
#include "simgpu_check.h"

#define MiB (1ull << 20)

static size_t used(void)
{
    size_t available = 0, total = 0;
    OK(cuMemGetInfo_v2, &available, &total);
    return total - available;
}

static void device_memory(void)
{
    CUdeviceptr a = 0, b = 0, c = 0, base = 0;
    size_t before = used(), pitch = 0, size = 0;
    OK(cuMemAlloc_v2, &a, 100);
    OK(cuMemAlloc_v2, &b, 10 * MiB);
    OK(cuMemAllocPitch_v2, &c, &pitch, 100, 10, 4);
    TRUE_(a % 512 == 0 && b % 512 == 0 && pitch >= 100 && pitch % 512 == 0);
    TRUE_(used() - before == 10 * MiB + 2 * 2 * MiB); /* small ones share chunks of their size */
    OK(cuMemGetAddressRange_v2, &base, &size, b + 5 * MiB);
    TRUE_(base == b && size == 10 * MiB);
    IS(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2, &base, &size, (CUdeviceptr)(uintptr_t)&size);
    IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2, &base, 1ull << 40);
    IS(BAD_VALUE, cuMemAlloc_v2, &base, 0);
    IS(BAD_VALUE, cuMemFree_v2, b + 512);
    OK(cuMemFree_v2, a);
    OK(cuMemFree_v2, b);
    OK(cuMemFree_v2, c);
    OK(cuMemFree_v2, 0);
    IS(BAD_VALUE, cuMemFree_v2, b);
    TRUE_(used() == before);
}

static void small_allocations_do_not_overlap(void)
{
    enum { COUNT = 20000 };
    CUdeviceptr *at = malloc(COUNT * sizeof *at);
    for (unsigned i = 0; i < COUNT; i++) {
        OK(cuMemAllocManaged, &at[i], 64 + i % 3000, CU_MEM_ATTACH_GLOBAL);
        *(unsigned *)(uintptr_t)at[i] = i;
    }
    for (unsigned i = 0; i < COUNT; i += 2)
        OK(cuMemFree_v2, at[i]);
    for (unsigned i = 1; i < COUNT; i += 2) {
        TRUE_(*(unsigned *)(uintptr_t)at[i] == i);
        OK(cuMemFree_v2, at[i]);
    }
    free(at);
}

/* 8 MiB at `p`, which prefer the card and are accessed by it. */
static void advice_for_parts(CUdeviceptr p, size_t before)
{
    int place = 9, places[2] = {9, 9};
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    OK(cuMemAdvise, p + 4 * MiB, 2 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, -1); /* a part of it */
    OK(cuMemAdvise_v2, p + 2 * MiB, 2 * MiB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device);
    OK(cuMemRangeGetAttribute, &place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + 4 * MiB, 2 * MiB);
    TRUE_(place == -1);
    OK(cuMemRangeGetAttribute, &place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 4 * MiB);
    TRUE_(place == 0);
    OK(cuMemRangeGetAttribute, &place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, 8 * MiB);
    TRUE_(place == -2); /* not all of it is the same */
    OK(cuMemRangeGetAttribute, places, sizeof places, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, 8 * MiB);
    TRUE_(places[0] == -2);
    OK(cuMemRangeGetAttribute, places, sizeof places, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p + 4 * MiB, 4 * MiB);
    TRUE_(places[0] == 0);
    void *params[] = {&p, &(size_t){8 * MiB}};
    OK(cuMemPrefetchAsync, p, 8 * MiB, -1, NULL);
    OK(cuLaunchKernel, kernel("sim_touch"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    OK(cuCtxSynchronize);
    TRUE_(used() == before + 2 * MiB); /* what is at home on the host, or mapped there, stayed there */
}

static void managed_memory(void)
{
    CUdeviceptr p = 0;
    size_t before = used();
    int place = 9, places[2] = {9, 9};
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    OK(cuMemAllocManaged, &p, 8 * MiB, CU_MEM_ATTACH_GLOBAL);
    IS(BAD_VALUE, cuMemAllocManaged, &p, 16, 77);
    TRUE_(used() == before); /* nothing is resident yet */
    memset((void *)(uintptr_t)p, 7, 100); /* the host may touch it */
    OK(cuMemPrefetchAsync, p, 8 * MiB, 0, NULL);
    OK(cuCtxSynchronize);
    TRUE_(used() == before + 8 * MiB);
    OK(cuMemPrefetchAsync_ptsz, p, 4 * MiB, -1, NULL);
    OK(cuStreamSynchronize_ptsz, NULL);
    TRUE_(used() == before + 4 * MiB);
    OK(cuMemPrefetchAsync_v2, p, 8 * MiB, host, 0, NULL);
    OK(cuMemPrefetchAsync_v2_ptsz, p, 2 * MiB, device, 0, NULL);
    OK(cuCtxSynchronize);
    TRUE_(used() == before + 2 * MiB);
    IS(BAD_VALUE, cuMemPrefetchAsync, p, 9 * MiB, 0, NULL);
    OK(cuMemAdvise, p, 8 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
    OK(cuMemAdvise_v2, p, 8 * MiB, CU_MEM_ADVISE_SET_ACCESSED_BY, device);
    OK(cuMemRangeGetAttribute, &place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MiB);
    TRUE_(place == 0);
    void *data[] = {&place, places};
    size_t sizes[] = {sizeof place, sizeof places};
    CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
    OK(cuMemRangeGetAttributes, data, sizes, attributes, 2, p, MiB);
    TRUE_(place == 0 && places[0] == 0 && places[1] == -2);
    advice_for_parts(p, before);
    PTSZ(CUDA_SUCCESS, cuStreamAttachMemAsync, NULL, p, 0, CU_MEM_ATTACH_GLOBAL);
    TRUE_(*(char *)(uintptr_t)p == 7);
    OK(cuMemFree_v2, p);
    TRUE_(used() == before);
}

static void host_memory(void)
{
    void *a = NULL, *b = NULL;
    static char own[8192];
    CUdeviceptr device = 0;
    unsigned flags = 0;
    OK(cuMemAllocHost_v2, &a, 1000);
    OK(cuMemHostAlloc, &b, 1000, CU_MEMHOSTALLOC_PORTABLE);
    memset(a, 1, 1000);
    OK(cuMemHostGetDevicePointer_v2, &device, b, 0);
    TRUE_(device == (CUdeviceptr)(uintptr_t)b);
    OK(cuMemHostGetFlags, &flags, b);
    TRUE_((flags & CU_MEMHOSTALLOC_PORTABLE) != 0);
    IS(BAD_VALUE, cuMemHostGetFlags, &flags, own);
    OK(cuMemHostRegister_v2, own, sizeof own, 0);
    IS(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2, own + 100, 100, 0);
    OK(cuMemHostUnregister, own);
    IS(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister, own);
    OK(cuMemFreeHost, a);
    OK(cuMemFreeHost, b);
    IS(BAD_VALUE, cuMemFreeHost, own);
}

static void attributes_of_pointers(CUcontext context)
{
    CUdeviceptr native = 0, managed = 0;
    unsigned type = 0, is_managed = 9, on = 1;
    int ordinal = -1;
    CUcontext seen = NULL;
    CUipcMemHandle handle;
    OK(cuMemAlloc_v2, &native, MiB);
    OK(cuMemAllocManaged, &managed, MiB, CU_MEM_ATTACH_GLOBAL);
    OK(cuPointerGetAttribute, &seen, CU_POINTER_ATTRIBUTE_CONTEXT, native + 5);
    OK(cuPointerGetAttribute, &is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, native);
    TRUE_(seen == context && is_managed == 0);
    OK(cuPointerGetAttribute, &is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, managed);
    TRUE_(is_managed == 1);
    IS(BAD_VALUE, cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&type);
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&type, &ordinal};
    OK(cuPointerGetAttributes, 2, wanted, data, native);
    TRUE_(type == CU_MEMORYTYPE_DEVICE && ordinal == 0);
    OK(cuPointerGetAttributes, 2, wanted, data, (CUdeviceptr)(uintptr_t)&type);
    TRUE_(type == 0);
    OK(cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, native);
    OK(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, native);
    TRUE_(type == 1);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuMemGetHandleForAddressRange, &handle, native, MiB, 1, 0);
    IS(BAD_VALUE, cuIpcGetMemHandle, &handle, managed); /* managed memory cannot be shared so */
    OK(cuMemsetD8_v2, native, 0x5a, MiB);
    OK(cuIpcGetMemHandle, &handle, native);
    OK(cuPointerGetAttribute, &on, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, native);
    TRUE_(on == 1 && ((char *)(uintptr_t)native)[MiB - 1] == 0x5a); /* the bytes stay where they are */
    IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2, &native, handle, 1); /* not for the process itself */
    IS(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle, &native, handle, 1);
    IS(BAD_VALUE, cuIpcCloseMemHandle, native);
    OK(cuMemsetD8_v2, native, 0, MiB);
    TRUE_(((char *)(uintptr_t)native)[MiB - 1] == 0);
    OK(cuMemFree_v2, native);
    OK(cuMemFree_v2, managed);
}

static uint64_t pool_number(CUmemoryPool pool, int attribute)
{
    uint64_t value = 0;
    OK(cuMemPoolGetAttribute, pool, attribute, &value);
    return value;
}

static void pools(void)
{
    CUmemoryPool standard = NULL, pool = NULL, seen = NULL;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemPoolPtrExportData exported;
    CUdeviceptr a = 0, b = 0;
    int flags = 0, fd = -1;
    uint64_t keep = 64 * MiB, number = 9;
    OK(cuDeviceGetDefaultMemPool, &standard, 0);
    OK(cuMemGetDefaultMemPool, &seen, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
    TRUE_(standard == seen);
    size_t before = used();
    OK(cuMemPoolCreate, &pool, &properties);
    OK(cuDeviceSetMemPool, 0, pool);
    OK(cuDeviceGetMemPool, &seen, 0);
    TRUE_(seen == pool);
    OK(cuMemSetMemPool, &location, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
    OK(cuMemGetMemPool, &seen, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
    TRUE_(seen == pool);
    OK(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    OK(cuMemAllocAsync, &a, 10 * MiB, NULL);
    OK(cuMemAllocFromPoolAsync, &b, 10 * MiB, pool, NULL);
    TRUE_(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 20 * MiB && used() == before + 20 * MiB);
    OK(cuMemFreeAsync, a, NULL);
    IS(BAD_VALUE, cuMemFreeAsync, a, NULL);
    OK(cuCtxSynchronize);
    TRUE_(pool_number(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 10 * MiB && used() == before + 20 * MiB);
    OK(cuMemAllocAsync_ptsz, &a, 10 * MiB, NULL); /* what was kept is used again */
    TRUE_(used() == before + 20 * MiB);
    OK(cuMemFreeAsync_ptsz, a, NULL);
    OK(cuMemFreeAsync, b, NULL);
    OK(cuCtxSynchronize);
    OK(cuMemPoolTrimTo, pool, 10 * MiB);
    TRUE_(pool_number(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 10 * MiB);
    OK(cuMemAllocFromPoolAsync_ptsz, &a, 1000, pool, NULL);
    OK(cuMemPoolSetAccess, pool, &access, 1);
    OK(cuMemPoolGetAccess, &flags, pool, &location);
    TRUE_(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolExportToShareableHandle, &fd, pool, 1, 0);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolImportFromShareableHandle, &seen, &fd, 1, 0);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolExportPointer, &exported, a);
    IS(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolImportPointer, &b, pool, &exported);
    OK(cuMemFree_v2, a);
    OK(cuMemPoolDestroy, pool);
    IS(BAD_VALUE, cuMemPoolDestroy, standard);
    TRUE_(used() == before);
    OK(cuDeviceGraphMemTrim, 0);
    OK(cuDeviceGetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &number);
    TRUE_(number == 0);
    OK(cuDeviceSetGraphMemAttribute, 0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &number);
}

static void virtual_memory(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, seen;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0, again = 0, shared = 0, imported = 0;
    CUdeviceptr at = 0;
    size_t unit = 0, before = used();
    unsigned long long flags = 0;
    int fd = -1;
    OK(cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    TRUE_(unit == 2 * MiB);
    OK(cuMemAddressReserve, &at, 16 * MiB, 0, 0, 0);
    TRUE_(used() == before);
    OK(cuMemCreate, &handle, 4 * MiB, &properties, 0);
    IS(BAD_VALUE, cuMemCreate, &again, 4 * MiB + 1, &properties, 0);
    OK(cuMemGetAllocationPropertiesFromHandle, &seen, handle);
    TRUE_(seen.location.id == 0 && seen.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    OK(cuMemMap, at, 4 * MiB, 0, handle, 0);
    OK(cuMemSetAccess, at, 4 * MiB, &access, 1);
    OK(cuMemGetAccess, &flags, &access.location, at);
    TRUE_(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemRelease, handle); /* lives on in its mapping */
    TRUE_(used() == before + 4 * MiB);
    unsigned in = 0x12345678, out = 0;
    OK(cuMemcpyHtoD_v2, at + 3 * MiB, &in, sizeof in);
    OK(cuMemcpyDtoH_v2, &out, at + 3 * MiB, sizeof out);
    TRUE_(in == out);
    OK(cuMemRetainAllocationHandle, &again, (void *)(uintptr_t)at);
    OK(cuMemMap, at + 8 * MiB, 4 * MiB, 0, again, 0); /* the same memory twice */
    OK(cuMemSetAccess, at + 8 * MiB, 4 * MiB, &access, 1);
    OK(cuMemcpyDtoH_v2, &out, at + 11 * MiB, sizeof out);
    TRUE_(in == out);
    IS(BAD_VALUE, cuMemAddressFree, at, 16 * MiB);
    OK(cuMemRelease, again);
    OK(cuMemUnmap, at, 4 * MiB);
    TRUE_(used() == before + 4 * MiB);
    OK(cuMemUnmap, at + 8 * MiB, 4 * MiB);
    TRUE_(used() == before);
    IS(BAD_VALUE, cuMemUnmap, at, 4 * MiB);
    IS(BAD_VALUE, cuMemUnmap, at, SIZE_MAX);
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemCreate, &shared, 2 * MiB, &properties, 0);
    OK(cuMemExportToShareableHandle, &fd, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    OK(cuMemImportFromShareableHandle, &imported, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    TRUE_(used() == before + 2 * MiB); /* charged once */
    OK(cuMemRelease, shared);
    OK(cuMemRelease, imported);
    close(fd);
    OK(cuMemAddressFree, at, 16 * MiB);
    TRUE_(used() == before);
}

static void arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 16, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1}, seen;
    CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 8, .Height = 4, .Depth = 2, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, cube_seen;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUarray a = NULL, b = NULL, level = NULL;
    CUmipmappedArray pyramid = NULL;
    char in[64], out[64];
    CUdeviceptr d = 0;
    size_t before = used();
    for (int i = 0; i < 64; i++)
        in[i] = (char)i;
    OK(cuArrayCreate_v2, &a, &flat);
    OK(cuArray3DCreate_v2, &b, &cube);
    TRUE_(used() > before);
    OK(cuArrayGetDescriptor_v2, &seen, a);
    OK(cuArray3DGetDescriptor_v2, &cube_seen, b);
    TRUE_(seen.Width == 16 && cube_seen.Depth == 2);
    OK(cuMemAlloc_v2, &d, 64);
    PTDS(CUDA_SUCCESS, cuMemcpyHtoA_v2, a, 0, in, 64);
    PTDS(CUDA_SUCCESS, cuMemcpyAtoD_v2, d, a, 0, 64);
    PTDS(CUDA_SUCCESS, cuMemcpyDtoA_v2, b, 0, d, 64);
    PTDS(CUDA_SUCCESS, cuMemcpyAtoA_v2, b, 64, b, 0, 64);
    memset(out, 0, 64);
    PTDS(CUDA_SUCCESS, cuMemcpyAtoH_v2, out, b, 64, 64);
    TRUE_(memcmp(in, out, 64) == 0);
    PTSZ(CUDA_SUCCESS, cuMemcpyHtoAAsync_v2, a, 32, in, 32, NULL);
    PTSZ(CUDA_SUCCESS, cuMemcpyAtoHAsync_v2, out, a, 32, 32, NULL);
    OK(cuCtxSynchronize);
    TRUE_(memcmp(in, out, 32) == 0);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a, .srcXInBytes = 4, .srcY = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = out, .dstPitch = 8, .WidthInBytes = 8, .Height = 2};
    OK(cuMemcpyHtoA_v2, a, 0, in, 64);
    OK(cuMemcpy2D_v2, &copy);
    TRUE_(out[0] == 20 && out[8] == 36);
    IS(BAD_VALUE, cuMemcpyHtoA_v2, a, 60, in, 64);
    OK(cuArrayGetMemoryRequirements, &needs, a, 0);
    TRUE_(needs.size == 64);
    IS(BAD_HANDLE, cuArrayGetSparseProperties, &sparse, a);
    IS(BAD_HANDLE, cuArrayGetPlane, &level, a, 0);
    OK(cuMipmappedArrayCreate, &pyramid, &cube, 3);
    OK(cuMipmappedArrayGetLevel, &level, pyramid, 2);
    OK(cuArray3DGetDescriptor_v2, &cube_seen, level);
    TRUE_(cube_seen.Width == 2 && cube_seen.Height == 1);
    OK(cuMipmappedArrayDestroy, pyramid);
    OK(cuArrayDestroy, a);
    IS(BAD_HANDLE, cuArrayDestroy, a);
    OK(cuArrayDestroy, b);
    OK(cuMemFree_v2, d);
    TRUE_(used() == before);
}

static void textures(void)
{
    CUDA_RESOURCE_DESC resource = {.resType = 2}, seen;
    CUDA_TEXTURE_DESC texture = {.maxAnisotropy = 3}, texture_seen;
    CUDA_RESOURCE_VIEW_DESC view = {.width = 5}, view_seen;
    CUtexObject object = 0;
    CUsurfObject surface = 0;
    OK(cuTexObjectCreate, &object, &resource, &texture, &view);
    OK(cuTexObjectGetResourceDesc, &seen, object);
    OK(cuTexObjectGetTextureDesc, &texture_seen, object);
    OK(cuTexObjectGetResourceViewDesc, &view_seen, object);
    TRUE_(seen.resType == 2 && texture_seen.maxAnisotropy == 3 && view_seen.width == 5);
    OK(cuTexObjectDestroy, object);
    IS(BAD_VALUE, cuTexObjectDestroy, object);
    OK(cuSurfObjectCreate, &surface, &resource);
    OK(cuSurfObjectGetResourceDesc, &seen, surface);
    OK(cuSurfObjectDestroy, surface);
}

/* What a context allocated goes with it, pools and small pieces included. */
static void destroying_a_context(void)
{
    CUcontext context = NULL;
    CUdeviceptr pointer = 0;
    size_t before = used();
    OK(cuCtxCreate_v2, &context, 0, 0);
    for (int i = 0; i < 100; i++) {
        OK(cuMemAlloc_v2, &pointer, 1000 + (size_t)i);
        OK(cuMemAlloc_v2, &pointer, 3 * MiB);
        OK(cuMemAllocManaged, &pointer, 3 * MiB, CU_MEM_ATTACH_GLOBAL);
        OK(cuMemPrefetchAsync, pointer, 3 * MiB, 0, NULL);
    }
    OK(cuCtxSynchronize);
    TRUE_(used() > before + 600 * MiB);
    OK(cuCtxDestroy_v2, context);
    TRUE_(used() == before);
    IS(BAD_VALUE, cuMemFree_v2, pointer);
}

static void resetting_a_device(void)
{
    CUcontext context = NULL;
    CUdeviceptr pointer = 0;
    OK(cuMemAllocAsync, &pointer, 10 * MiB, NULL);
    OK(cuMemAlloc_v2, &pointer, 10 * MiB);
    OK(cuDevicePrimaryCtxReset_v2, 0);
    IS(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2, &pointer, 16);
    OK(cuDevicePrimaryCtxRetain, &context, 0);
    OK(cuCtxSetCurrent, context);
    TRUE_(used() == 256 * MiB);
    OK(cuMemAllocAsync, &pointer, 10 * MiB, NULL);
    OK(cuMemFreeAsync, pointer, NULL);
    OK(cuCtxSynchronize);
    TRUE_(used() == 256 * MiB);
}

int main(void)
{
    setenv("NVSHARE_SIM_SCALE", "0.01", 1);
    setenv("NVSHARE_SIM_MEMORY", "4Gi", 1);
    CUcontext context = start();
    device_memory();
    small_allocations_do_not_overlap();
    managed_memory();
    host_memory();
    attributes_of_pointers(context);
    pools();
    virtual_memory();
    arrays();
    textures();
    destroying_a_context();
    resetting_a_device();
    return done();
}
