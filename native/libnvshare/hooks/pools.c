/* Stream-ordered allocation and memory pools. */
#include "hooks/pools.h"

#include <stdatomic.h>

#include "gate/frees.h"
#include "gate/streams.h"
#include "hooks/hooks.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "memory/managed_pools.h"
#include "memory/pools.h"
#include "suspend/suspension.h"

/* While its stream captures, an allocation only becomes a node of the graph: charged when the graph is made executable. */
static bool only_records(CUstream stream, enum nvs_variant variant)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uintptr_t handle = nvs_stream_handle(stream, variant);
    if (atomic_load(&nvs_streams_capturing) == 0 || handle == (uintptr_t)CU_STREAM_LEGACY)
        return false;
    nvs_real.cuStreamIsCapturing((CUstream)handle, &status);
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUmemoryPool current_pool(void)
{
    CUmemoryPool pool = NULL;
    CUdevice device;
    if (nvs_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        nvs_real.cuDeviceGetMemPool(&pool, device);
    return pool;
}

typedef CUresult from_pool_call(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
typedef CUresult from_current_call(CUdeviceptr *, size_t, CUstream);

/* By `current` if it is not NULL, else by `named`. The pool is counted, and what `named` is asked for. */
static CUresult allocate(CUdeviceptr *d, size_t n, CUmemoryPool pool, CUstream st, from_pool_call *named, from_current_call *current)
{
    CUresult result;
    bool is_counted = nvs_pools_begin_allocation(pool, nvs_gpu_current(), n, &result);
    if (result == CUDA_SUCCESS)
        result = current ? current(d, n, st) : named(d, n, pool, st);
    if (is_counted)
        nvs_pools_end_allocation(pool, result, result == CUDA_SUCCESS ? *d : 0, n);
    return result;
}

static CUresult from_pool(CUdeviceptr *d, size_t n, CUmemoryPool pool, CUstream st, enum nvs_variant variant, from_pool_call *real)
{
    struct nvs_gpu *gpu = nvs_gpu_current();
    if (!gpu || !d || !n || !pool || only_records(st, variant))
        return real(d, n, pool, st);
    return allocate(d, n, nvs_managed_pool_to_allocate(gpu, pool), st, real, NULL);
}

static CUresult from_current(CUdeviceptr *d, size_t n, CUstream st, enum nvs_variant variant, from_current_call *real)
{
    struct nvs_gpu *gpu = nvs_gpu_current();
    if (!gpu || !d || !n || only_records(st, variant))
        return real(d, n, st);
    CUmemoryPool current = current_pool(), pool = nvs_managed_pool_to_allocate(gpu, current);
    from_pool_call *named = variant == NVS_PTDS ? nvs_real.cuMemAllocFromPoolAsync_ptsz : nvs_real.cuMemAllocFromPoolAsync;
    return allocate(d, n, pool, st, named, pool == current ? real : NULL);
}

#define PAIR(symbol, function, params, args, ...) \
    CUresult symbol params { NVS_BEGIN_HOOK(symbol args); return function(__VA_ARGS__, NVS_LEGACY, nvs_real.symbol); } \
    CUresult symbol##_ptsz params { NVS_BEGIN_HOOK(symbol##_ptsz args); return function(__VA_ARGS__, NVS_PTDS, nvs_real.symbol##_ptsz); }

PAIR(cuMemAllocAsync, from_current, (CUdeviceptr *d, size_t n, CUstream st), (d, n, st), d, n, st)
PAIR(cuMemAllocFromPoolAsync, from_pool, (CUdeviceptr *d, size_t n, CUmemoryPool pool, CUstream st), (d, n, pool, st), d, n, pool, st)

CUresult nvs_hook_pool_free(CUdeviceptr address, struct nvs_free free_it)
{
    struct nvs_ledger_entry entry;
    if (nvs_frees_has(address))
        return CUDA_ERROR_INVALID_VALUE;
    bool is_pooled = nvs_entries_take(NVS_KIND_POOLED, address, &entry);
    CUresult result = free_it.ordered ? free_it.ordered(address, free_it.stream) : free_it.plain(address);
    if (is_pooled && result == CUDA_SUCCESS)
        nvs_pools_freed((CUmemoryPool)(uintptr_t)entry.owner, entry.bytes);
    else if (is_pooled)
        nvs_entries_note(&entry);
    return result;
}

/* An address from cuMemAlloc may be freed in stream order too. The driver does not do this with managed memory, which that memory
 * is: see gate/frees.h. */
static CUresult free_in_order(CUdeviceptr d, CUstream st, enum nvs_variant variant, CUresult (*real)(CUdeviceptr, CUstream))
{
    struct nvs_ledger_entry entry;
    nvs_frees_do();
    if (!nvs_entries_take(NVS_KIND_MEMORY, d, &entry))
        return nvs_hook_pool_free(d, (struct nvs_free){.ordered = real, .stream = st});
    if (entry.is_converted && nvs_frees_after(&entry, nvs_stream_handle(st, variant)))
        return CUDA_SUCCESS;
    CUresult result = real(d, st);
    if (result == CUDA_SUCCESS)
        nvs_memory_return_entry(&entry);
    else
        nvs_entries_note(&entry);
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr d, CUstream st)
{
    NVS_BEGIN_HOOK(cuMemFreeAsync(d, st));
    return free_in_order(d, st, NVS_LEGACY, nvs_real.cuMemFreeAsync);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr d, CUstream st)
{
    NVS_BEGIN_HOOK(cuMemFreeAsync_ptsz(d, st));
    return free_in_order(d, st, NVS_PTDS, nvs_real.cuMemFreeAsync_ptsz);
}

static void located(CUmemoryPool pool, const CUmemLocation *location, int type)
{
    bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
    bool is_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 && location->id < nvs_gpu_count;
    if (is_managed)
        nvs_suspension_unfit(NVS_UNFIT_MEMORY);
    nvs_pools_known(pool, is_device ? &nvs_gpus[location->id] : NULL, (struct nvs_pool_form){.swappable = is_managed});
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    NVS_BEGIN_HOOK(cuMemPoolCreate(pool, props));
    CUresult result = nvs_real.cuMemPoolCreate(pool, props);
    if (result == CUDA_SUCCESS)
        located(*pool, &props->location, props->allocType);
    return result;
}

#define GET_POOL(symbol) \
    CUresult symbol(CUmemoryPool *pool, CUmemLocation *location, int type) \
    { \
        NVS_BEGIN_HOOK(symbol(pool, location, type)); \
        CUresult result = nvs_real.symbol(pool, location, type); \
        if (result == CUDA_SUCCESS) \
            located(*pool, location, type); \
        return result; \
    }
GET_POOL(cuMemGetDefaultMemPool)
GET_POOL(cuMemGetMemPool)

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    NVS_BEGIN_HOOK(cuMemPoolDestroy(handle));
    return nvs_pools_destroy(handle);
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    NVS_BEGIN_HOOK(cuMemPoolTrimTo(handle, keep));
    CUmemoryPool managed = nvs_managed_pool(handle);
    CUresult result = nvs_real.cuMemPoolTrimTo(handle, keep);
    if (result == CUDA_SUCCESS && managed != handle)
        result = nvs_real.cuMemPoolTrimTo(managed, keep);
    nvs_pools_refresh();
    return result;
}

/* What is set of a default pool is set of both: native memory may still be in it, of graphs for instance. */
CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void *value)
{
    NVS_BEGIN_HOOK(cuMemPoolSetAttribute(handle, attribute, value));
    CUmemoryPool managed = nvs_managed_pool(handle);
    CUresult result = nvs_real.cuMemPoolSetAttribute(handle, attribute, value);
    if (result == CUDA_SUCCESS && managed != handle)
        result = nvs_real.cuMemPoolSetAttribute(managed, attribute, value);
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void *value)
{
    NVS_BEGIN_HOOK(cuMemPoolGetAttribute(handle, attribute, value));
    return nvs_real.cuMemPoolGetAttribute(nvs_managed_pool(handle), attribute, value);
}
