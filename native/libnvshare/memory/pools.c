/* A pool keeps memory after it is freed, so the sum of live allocations does not say how much of the card it uses. What is
 * charged is
 *     charged = max(reserved by the pool, live)
 * A new allocation is charged only for what the pool has to grow by. The pool may grow by more, because it rounds; that is charged
 * after the call and counts against the next allocation. */
#include "memory/pools.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "gpu.h"
#include "memory/memory.h"

enum { FIRST_ROOM = 16 };

static struct nvs_pool {
    CUmemoryPool handle;
    struct nvs_gpu *gpu; /* NULL: on the host, charged to nobody */
    bool swappable;
    uint64_t charged, live;
} *pools;
static int pool_room;
/* Written under the lock. Read without it only to skip the work where there is no pool: a stale 0 is the same as a call a moment
 * earlier. */
static _Atomic int pool_count;
static struct nvs_lock pools_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_POOLS);

static struct nvs_pool *find(CUmemoryPool handle)
{
    for (int i = 0; i < pool_count; i++)
        if (pools[i].handle == handle)
            return &pools[i];
    return NULL;
}

static bool make_room_for_pool(void)
{
    if (pool_count < pool_room)
        return true;
    int room = pool_room ? 2 * pool_room : FIRST_ROOM;
    struct nvs_pool *grown = realloc(pools, (size_t)room * sizeof *pools);
    if (!grown) {
        nvs_warn("no memory to note a memory pool; what it allocates is not counted");
        return false;
    }
    pools = grown;
    pool_room = room;
    return true;
}

static struct nvs_pool *find_or_add(CUmemoryPool handle, struct nvs_gpu *gpu, bool swappable)
{
    struct nvs_pool *pool = find(handle);
    if (pool || !make_room_for_pool())
        return pool;
    pools[pool_count] = (struct nvs_pool){.handle = handle, .gpu = gpu, .swappable = swappable};
    return &pools[pool_count++];
}

/* Charges what the pool reserves now. */
static void charge_reserved(struct nvs_pool *pool)
{
    uint64_t reserved = 0, target;
    if (!pool->gpu)
        return;
    nvs_real.cuMemPoolGetAttribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    target = reserved > pool->live ? reserved : pool->live;
    if (target > pool->charged)
        nvs_memory_add(pool->gpu, target - pool->charged, pool->swappable);
    else if (target < pool->charged)
        nvs_memory_return(pool->gpu, pool->charged - target, pool->swappable);
    pool->charged = target;
}

static void charge_reserved_all(void)
{
    for (int i = 0; i < pool_count; i++)
        charge_reserved(&pools[i]);
}

void nvs_pools_refresh(void)
{
    if (!pool_count)
        return;
    nvs_lock_take(&pools_lock);
    charge_reserved_all();
    nvs_lock_give(&pools_lock);
}

void nvs_pools_try_refresh(void)
{
    if (!pool_count || !nvs_lock_try(&pools_lock))
        return;
    charge_reserved_all();
    nvs_lock_give(&pools_lock);
}

bool nvs_pools_have_slack(void)
{
    bool found = false;
    if (!pool_count || !nvs_lock_try(&pools_lock))
        return pool_count != 0;
    for (int i = 0; i < pool_count; i++)
        found = found || pools[i].charged > pools[i].live;
    nvs_lock_give(&pools_lock);
    return found;
}

static uint64_t growth(const struct nvs_pool *pool, uint64_t bytes)
{
    uint64_t slack = pool->charged - pool->live;
    return bytes > slack ? bytes - slack : 0;
}

/* Charges what the pool has to grow by. Called and left with the lock held. The lock is released for the reservation, which may
 * wait for the scheduler: meanwhile other threads can free what would make room. A pool may have moved in the table since, and
 * others may have used its slack. NULL if it was destroyed. */
static struct nvs_pool *make_room(struct nvs_pool *pool, uint64_t bytes, CUresult *result)
{
    CUmemoryPool handle = pool->handle;
    struct nvs_gpu *gpu = pool->gpu;
    bool swappable = pool->swappable;
    uint64_t in_hand = 0, extra;
    *result = CUDA_SUCCESS;
    while (pool && *result == CUDA_SUCCESS && (extra = growth(pool, bytes)) > in_hand) {
        nvs_lock_give(&pools_lock);
        *result = nvs_memory_reserve(gpu, extra - in_hand, swappable);
        if (*result == CUDA_SUCCESS)
            in_hand = extra;
        nvs_lock_take(&pools_lock);
        pool = find(handle);
    }
    if (pool && *result == CUDA_SUCCESS)
        pool->charged += in_hand;
    else if (in_hand)
        nvs_memory_return(gpu, in_hand, swappable);
    return pool;
}

static void note_live(struct nvs_pool *pool, CUdeviceptr address, uint64_t bytes)
{
    pool->live += bytes;
    nvs_memory_note(&(struct nvs_ledger_entry){.key = address, .bytes = bytes, .owner = (uintptr_t)pool->handle,
                                        .gpu = (uint16_t)pool->gpu->index, .kind = NVS_KIND_POOLED});
}

struct nvs_pool *nvs_pools_begin_allocation(CUmemoryPool handle, struct nvs_gpu *gpu, uint64_t bytes, CUresult *result)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find_or_add(handle, gpu, false);
    *result = CUDA_SUCCESS;
    return pool && pool->gpu ? make_room(pool, bytes, result) : NULL;
}

void nvs_pools_end_allocation(struct nvs_pool *pool, CUresult result, CUdeviceptr address, uint64_t bytes)
{
    if (pool) {
        if (result == CUDA_SUCCESS)
            note_live(pool, address, bytes);
        charge_reserved(pool);
    }
    nvs_lock_give(&pools_lock);
}

void nvs_pools_freed(CUmemoryPool handle, uint64_t bytes)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find(handle);
    if (pool) {
        pool->live -= bytes < pool->live ? bytes : pool->live;
        charge_reserved(pool);
    }
    nvs_lock_give(&pools_lock);
}

void nvs_pools_known(CUmemoryPool handle, struct nvs_gpu *gpu, bool swappable)
{
    nvs_lock_take(&pools_lock);
    find_or_add(handle, gpu, swappable);
    nvs_lock_give(&pools_lock);
}

CUresult nvs_pools_destroy(CUmemoryPool handle)
{
    nvs_lock_take(&pools_lock);
    CUresult result = nvs_real.cuMemPoolDestroy(handle);
    struct nvs_pool *pool = result == CUDA_SUCCESS ? find(handle) : NULL;
    if (pool) {
        if (pool->gpu)
            nvs_memory_return(pool->gpu, pool->charged, pool->swappable);
        *pool = pools[--pool_count];
    }
    nvs_lock_give(&pools_lock);
    return result;
}

void nvs_pools_forked(void)
{
    nvs_lock_reset(&pools_lock);
    pools = NULL; /* it may have been half moved when we forked: left where it is */
    pool_count = pool_room = 0;
}
