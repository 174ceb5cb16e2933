/* A pool keeps memory after it is freed, so the sum of live allocations does not say how much of the card it uses. What is
 * charged is
 *     charged = max(reserved by the pool, live)
 * A new allocation is charged only for what the pool has to grow by. The pool may grow by more, because it rounds; that is charged
 * after the call and counts against the next allocation.
 *
 * The lock is never held across a driver call. What a pool reserves is asked for without it; the answer counts unless a later question
 * has been answered. If the driver does not answer (an error of earlier work), the last answer counts. A pool is destroyed when no thread asks about it. */
#include "memory/pools.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/log.h"
#include "gpu.h"
#include "memory/entries.h"
#include "memory/memory.h"

enum { FIRST_ROOM = 16 };
#define ASK_LOOK_NS 20000

static struct nvs_pool {
    CUmemoryPool handle;
    struct nvs_gpu *gpu; /* NULL: on the host, not charged */
    bool swappable, is_converted;
    uint64_t charged, live;
    uint64_t reserved;            /* by the last answer of the driver */
    uint64_t questions, answered; /* how many, and which was answered last */
    int asking;                   /* how many threads ask the driver about it now */
    bool is_ending;               /* it is being destroyed: no more questions */
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
    if (!grown)
        return false;
    pools = grown;
    pool_room = room;
    return true;
}

/* After the lock was released: a line may have to wait for its reader. */
static void say_if_unknown(bool is_known)
{
    if (!is_known)
        nvs_warn("no memory to note a memory pool; what it allocates is not counted");
}

static struct nvs_pool *find_or_add(CUmemoryPool handle, struct nvs_gpu *gpu, struct nvs_pool_form form)
{
    struct nvs_pool *pool = find(handle);
    if (pool || !make_room_for_pool())
        return pool;
    pools[pool_count] = (struct nvs_pool){.handle = handle, .gpu = gpu, .swappable = form.swappable, .is_converted = form.is_converted};
    return &pools[pool_count++];
}

static void charge(struct nvs_pool *pool)
{
    uint64_t target = pool->reserved > pool->live ? pool->reserved : pool->live;
    if (target > pool->charged)
        nvs_memory_add(pool->gpu, target - pool->charged, pool->swappable);
    else if (target < pool->charged)
        nvs_memory_return(pool->gpu, pool->charged - target, pool->swappable);
    pool->charged = target;
}

/* Charges what the pool reserves now. Gives and takes the lock. */
static void charge_reserved(CUmemoryPool handle)
{
    uint64_t reserved = 0, question;
    struct nvs_pool *pool = find(handle);
    if (!pool || !pool->gpu || pool->is_ending)
        return;
    question = ++pool->questions;
    pool->asking++;
    nvs_lock_give(&pools_lock);
    CUresult result = nvs_real.cuMemPoolGetAttribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    nvs_lock_take(&pools_lock);
    pool = find(handle); /* it exists, because a thread asks about it, but may have moved in the table */
    pool->asking--;
    if (result == CUDA_SUCCESS && question > pool->answered) {
        pool->answered = question;
        pool->reserved = reserved;
    }
    charge(pool);
}

void nvs_pools_refresh(void)
{
    if (!pool_count)
        return;
    nvs_lock_take(&pools_lock);
    for (int i = 0; i < pool_count; i++)
        charge_reserved(pools[i].handle);
    nvs_lock_give(&pools_lock);
}

bool nvs_pools_exist(void) { return pool_count > 0; }

bool nvs_pools_have_slack(void)
{
    bool found = false;
    if (!pool_count)
        return false;
    nvs_lock_take(&pools_lock);
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

/* Charges what the pool has to grow by, and counts the bytes as live. Called and left with the lock held. The lock is released for the reservation, which may
 * wait for the scheduler: meanwhile other threads can free what would make room. A pool may have moved in the table since, and
 * others may have used its slack. False if there is no room, or if it was destroyed. */
static bool make_room(struct nvs_pool *pool, uint64_t bytes, CUresult *result)
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
    if (pool && *result == CUDA_SUCCESS) {
        pool->charged += in_hand;
        pool->live += bytes;
        return true;
    }
    if (in_hand)
        nvs_memory_return(gpu, in_hand, swappable);
    return false;
}

bool nvs_pools_begin_allocation(CUmemoryPool handle, struct nvs_gpu *gpu, uint64_t bytes, CUresult *result)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find_or_add(handle, gpu, (struct nvs_pool_form){0});
    *result = CUDA_SUCCESS;
    bool is_known = pool != NULL, is_counted = pool && pool->gpu && make_room(pool, bytes, result);
    nvs_lock_give(&pools_lock);
    say_if_unknown(is_known);
    return is_counted;
}

static void count_less(struct nvs_pool *pool, uint64_t bytes) { pool->live -= bytes < pool->live ? bytes : pool->live; }

void nvs_pools_end_allocation(CUmemoryPool handle, CUresult result, CUdeviceptr address, uint64_t bytes)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find(handle);
    bool is_fixed = pool && !pool->swappable;
    if (pool && result == CUDA_SUCCESS)
        nvs_entries_note(&(struct nvs_ledger_entry){.key = address, .bytes = bytes, .owner = (uintptr_t)handle,
                                                   .gpu = (uint16_t)pool->gpu->index, .kind = NVS_KIND_POOLED,
                                                   .swappable = pool->swappable, .is_converted = pool->is_converted});
    else if (pool)
        count_less(pool, bytes);
    charge_reserved(handle);
    nvs_lock_give(&pools_lock);
    if (is_fixed && result == CUDA_ERROR_OUT_OF_MEMORY)
        nvs_memory_say_fixed();
}

void nvs_pools_freed(CUmemoryPool handle, uint64_t bytes)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find(handle);
    if (pool) {
        count_less(pool, bytes);
        charge_reserved(handle);
    }
    nvs_lock_give(&pools_lock);
}

void nvs_pools_known(CUmemoryPool handle, struct nvs_gpu *gpu, struct nvs_pool_form form)
{
    nvs_lock_take(&pools_lock);
    bool is_known = find_or_add(handle, gpu, form) != NULL;
    nvs_lock_give(&pools_lock);
    say_if_unknown(is_known);
}

/* Taken out of the table when no thread asks about it. False if it is not known. */
static bool take_out(CUmemoryPool handle, struct nvs_pool *taken)
{
    struct nvs_pool *pool;
    nvs_lock_take(&pools_lock);
    while ((pool = find(handle)) && pool->asking) {
        pool->is_ending = true;
        nvs_lock_give(&pools_lock);
        nvs_sleep_ns(ASK_LOOK_NS);
        nvs_lock_take(&pools_lock);
    }
    if (pool) {
        *taken = *pool;
        *pool = pools[--pool_count];
    }
    nvs_lock_give(&pools_lock);
    return pool != NULL;
}

static void put_back(const struct nvs_pool *taken)
{
    nvs_lock_take(&pools_lock);
    struct nvs_pool *pool = find_or_add(taken->handle, taken->gpu, (struct nvs_pool_form){taken->swappable, taken->is_converted});
    if (pool)
        pool->charged = taken->charged, pool->live = taken->live, pool->reserved = taken->reserved;
    bool is_known = pool != NULL;
    nvs_lock_give(&pools_lock);
    say_if_unknown(is_known);
}

/* It leaves the table first: a new pool may have the same handle as soon as the driver has destroyed this one. */
CUresult nvs_pools_destroy(CUmemoryPool handle)
{
    struct nvs_pool pool;
    bool is_known = take_out(handle, &pool);
    CUresult result = nvs_real.cuMemPoolDestroy(handle);
    if (is_known && result != CUDA_SUCCESS)
        put_back(&pool);
    else if (is_known && pool.gpu)
        nvs_memory_return(pool.gpu, pool.charged, pool.swappable);
    return result;
}

void nvs_pools_forked(void)
{
    nvs_lock_reset(&pools_lock);
    pools = NULL; /* it may have been half moved when we forked: left where it is */
    pool_count = pool_room = 0;
}
