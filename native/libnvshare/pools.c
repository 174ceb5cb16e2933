/* A pool keeps memory after it is freed, so the sum of live allocations says little about the card. What is charged is
 * the larger of what the pool says it reserves and what is live. A new allocation is charged only for what the pool has
 * to grow by; the pool may grow by more (it rounds), which is charged too, and counts against the next allocation.
 *
 * One lock for all pools, held over the driver's call: two threads must not both count on the same slack. */
#include "pools.h"

#include <stdatomic.h>

#include "drain.h"
#include "hooks.h"
#include "memory.h"
#include "passage.h"
#include "streams.h"

enum { MOST_POOLS = 128 };

static struct pool {
    CUmemoryPool handle;
    struct nvs_gpu *gpu;
    bool swappable;
    uint64_t charged, live;
} pools[MOST_POOLS];
static _Atomic int pool_count; /* written under the lock; asked for without it, as a hint */
static struct nvs_lock lock;

static struct pool *find(CUmemoryPool handle)
{
    for (int i = 0; i < pool_count; i++)
        if (pools[i].handle == handle)
            return &pools[i];
    return NULL;
}

static struct pool *find_or_add(CUmemoryPool handle, struct nvs_gpu *gpu, bool swappable)
{
    struct pool *pool = find(handle);
    if (pool || pool_count == MOST_POOLS)
        return pool;
    pools[pool_count] = (struct pool){.handle = handle, .gpu = gpu, .swappable = swappable};
    return &pools[pool_count++];
}

static void settle(struct pool *pool)
{
    uint64_t reserved = 0, target;
    nvs_real.cuMemPoolGetAttribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    target = reserved > pool->live ? reserved : pool->live;
    if (target > pool->charged)
        nvs_memory_add(pool->gpu, target - pool->charged, pool->swappable);
    else if (target < pool->charged)
        nvs_memory_return(pool->gpu, pool->charged - target, pool->swappable);
    pool->charged = target;
}

static void settle_all(void)
{
    for (int i = 0; i < pool_count; i++)
        settle(&pools[i]);
}

void nvs_pools_refresh(void)
{
    if (!pool_count || !nvs_lock_try(&lock))
        return;
    settle_all();
    nvs_lock_give(&lock);
}

bool nvs_pools_have_slack(void)
{
    bool found = false;
    if (!pool_count || !nvs_lock_try(&lock))
        return pool_count != 0;
    for (int i = 0; i < pool_count; i++)
        found = found || pools[i].charged > pools[i].live;
    nvs_lock_give(&lock);
    return found;
}

static uint64_t growth(const struct pool *pool, uint64_t bytes)
{
    uint64_t slack = pool->charged - pool->live;
    return bytes > slack ? bytes - slack : 0;
}

static CUresult make_room(struct pool *pool, uint64_t bytes)
{
    uint64_t extra = growth(pool, bytes);
    CUresult result = nvs_memory_reserve(pool->gpu, extra, pool->swappable);
    if (result != CUDA_SUCCESS) {
        settle_all(); /* another pool may have let go of something */
        extra = growth(pool, bytes);
        result = nvs_memory_reserve(pool->gpu, extra, pool->swappable);
    }
    if (result == CUDA_SUCCESS)
        pool->charged += extra;
    return result;
}

static void taken(struct pool *pool, CUdeviceptr address, uint64_t bytes)
{
    pool->live += bytes;
    nvs_memory_note(&(struct nvs_entry){.key = address, .bytes = bytes, .owner = (uintptr_t)pool->handle,
                                        .gpu = (uint16_t)pool->gpu->index, .kind = NVS_KIND_POOLED});
}

/* While its stream captures, an allocation only becomes a node of the graph: charged when the graph is made executable. */
static bool only_records(CUstream stream, enum nvs_variant variant)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    uintptr_t handle = nvs_handle(stream, variant);
    if (atomic_load(&nvs_captures) == 0 || handle == (uintptr_t)CU_STREAM_LEGACY)
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

/* The body of both allocations: CALL is the driver's function with its arguments. */
#define ALLOCATE(handle, call) \
    do { \
        struct nvs_gpu *gpu = nvs_current_gpu(); \
        if (!gpu || !d || !n || only_records(st, variant)) \
            return call; \
        nvs_lock_take(&lock); \
        struct pool *pool = find_or_add(handle, gpu, false); \
        CUresult result = pool && pool->gpu ? make_room(pool, n) : CUDA_SUCCESS; \
        if (result == CUDA_SUCCESS) \
            result = call; \
        if (pool && pool->gpu) { \
            if (result == CUDA_SUCCESS) \
                taken(pool, *d, n); \
            settle(pool); \
        } \
        nvs_lock_give(&lock); \
        return result; \
    } while (0)

static CUresult from_current(CUdeviceptr *d, size_t n, CUstream st, enum nvs_variant variant, CUresult (*real)(CUdeviceptr *, size_t, CUstream))
{
    ALLOCATE(current_pool(), real(d, n, st));
}

static CUresult from_pool(CUdeviceptr *d, size_t n, CUmemoryPool p, CUstream st, enum nvs_variant variant,
                          CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool, CUstream))
{
    ALLOCATE(p, real(d, n, p, st));
}

#define PAIR(symbol, function, params, args, ...) \
    CUresult symbol params { NVS_PASS_UNLESS_READY(symbol args); return function(__VA_ARGS__, NVS_LEGACY, nvs_real.symbol); } \
    CUresult symbol##_ptsz params { NVS_PASS_UNLESS_READY(symbol##_ptsz args); return function(__VA_ARGS__, NVS_PTDS, nvs_real.symbol##_ptsz); }

PAIR(cuMemAllocAsync, from_current, (CUdeviceptr *d, size_t n, CUstream st), (d, n, st), d, n, st)
PAIR(cuMemAllocFromPoolAsync, from_pool, (CUdeviceptr *d, size_t n, CUmemoryPool pool, CUstream st), (d, n, pool, st), d, n, pool, st)

CUresult nvs_pool_free(CUdeviceptr address, struct nvs_free free_it)
{
    struct nvs_entry entry;
    bool is_pooled = nvs_memory_take(NVS_KIND_POOLED, address, &entry);
    CUresult result = free_it.ordered ? free_it.ordered(address, free_it.stream) : free_it.plain(address);
    if (!is_pooled)
        return result;
    if (result != CUDA_SUCCESS) {
        nvs_memory_note(&entry);
        return result;
    }
    nvs_lock_take(&lock);
    struct pool *pool = find((CUmemoryPool)(uintptr_t)entry.owner);
    if (pool) {
        pool->live -= entry.bytes < pool->live ? entry.bytes : pool->live;
        settle(pool);
    }
    nvs_lock_give(&lock);
    return result;
}

/* An address from cuMemAlloc may be freed in stream order too; the plain entry is then the one to go. */
static CUresult free_in_order(CUdeviceptr d, CUstream st, CUresult (*real)(CUdeviceptr, CUstream))
{
    struct nvs_entry entry;
    if (!nvs_memory_take(NVS_KIND_MEMORY, d, &entry))
        return nvs_pool_free(d, (struct nvs_free){.ordered = real, .stream = st});
    CUresult result = real(d, st);
    if (result == CUDA_SUCCESS)
        nvs_memory_return(&nvs_gpus[entry.gpu], entry.bytes, entry.swappable);
    else
        nvs_memory_note(&entry);
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr d, CUstream st)
{
    NVS_PASS_UNLESS_READY(cuMemFreeAsync(d, st));
    return free_in_order(d, st, nvs_real.cuMemFreeAsync);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr d, CUstream st)
{
    NVS_PASS_UNLESS_READY(cuMemFreeAsync_ptsz(d, st));
    return free_in_order(d, st, nvs_real.cuMemFreeAsync_ptsz);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    NVS_PASS_UNLESS_READY(cuMemPoolCreate(pool, props));
    CUresult result = nvs_real.cuMemPoolCreate(pool, props);
    if (result != CUDA_SUCCESS)
        return result;
    int id = props->location.id;
    bool is_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && id >= 0 && id < nvs_gpu_count;
    nvs_lock_take(&lock);
    if (is_device)
        find_or_add(*pool, &nvs_gpus[id], props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED);
    nvs_lock_give(&lock);
    return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    NVS_PASS_UNLESS_READY(cuMemPoolDestroy(handle));
    nvs_lock_take(&lock);
    CUresult result = nvs_real.cuMemPoolDestroy(handle);
    struct pool *pool = result == CUDA_SUCCESS ? find(handle) : NULL;
    if (pool) {
        nvs_memory_return(pool->gpu, pool->charged, pool->swappable);
        *pool = pools[--pool_count];
    }
    nvs_lock_give(&lock);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
    NVS_PASS_UNLESS_READY(cuMemPoolTrimTo(handle, keep));
    CUresult result = nvs_real.cuMemPoolTrimTo(handle, keep);
    nvs_pools_refresh();
    return result;
}

void nvs_pools_forked(void)
{
    lock = (struct nvs_lock){0};
    pool_count = 0;
}
