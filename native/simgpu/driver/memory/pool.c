/* Stream-ordered allocation. A pool keeps what is freed into it and gives back to the card what exceeds its release
 * threshold when something is synchronised, as CUDA's pools do. Memory is handed out at once, not in stream order: an
 * allocation never has to wait for a free that is still queued, it takes new memory instead. */
#include "driver/memory/pool.h"

#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUmemoryPool pools;
static _Atomic uint32_t pool_count;

static uint64_t rounded(uint64_t bytes)
{
    uint64_t unit = bytes > SIM_CHUNK_BYTES / 2 ? SIM_CHUNK_BYTES : 512;
    return (bytes + unit - 1) / unit * unit;
}

/* ---- what a pool keeps; the lock is held ---- */

static struct sim_allocation *take_kept(CUmemoryPool pool, uint64_t bytes)
{
    size_t best = pool->count;
    for (size_t i = 0; i < pool->count; i++) {
        uint64_t size = pool->kept[i]->size;
        if (size >= bytes && size <= bytes + bytes / 4 && (best == pool->count || size < pool->kept[best]->size))
            best = i;
    }
    if (best == pool->count)
        return NULL;
    struct sim_allocation *found = pool->kept[best];
    pool->kept[best] = pool->kept[--pool->count];
    return found;
}

static void shrink(CUmemoryPool pool, uint64_t keep)
{
    while (pool->count > 0 && pool->reserved > keep) {
        struct sim_allocation *allocation = pool->kept[--pool->count];
        pool->reserved -= allocation->size;
        allocation->pool = NULL;
        sim_memory_free(allocation);
    }
}

static bool keep(CUmemoryPool pool, struct sim_allocation *allocation)
{
    if (pool->count == pool->room) {
        size_t room = pool->room == 0 ? 64 : 2 * pool->room;
        struct sim_allocation **grown = realloc(pool->kept, room * sizeof *grown);
        if (grown == NULL)
            return false;
        pool->kept = grown;
        pool->room = room;
    }
    pool->kept[pool->count++] = allocation;
    return true;
}

static void destroy(CUmemoryPool pool)
{
    for (CUmemoryPool *link = &pools; *link != NULL; link = &(*link)->next) {
        if (*link == pool) {
            *link = pool->next;
            break;
        }
    }
    free(pool->kept);
    sim_handle_free(pool);
    atomic_fetch_sub(&pool_count, 1);
}

void sim_pool_give_back(struct sim_allocation *allocation)
{
    pthread_mutex_lock(&lock);
    CUmemoryPool pool = allocation->pool;
    if (pool == NULL) {
        sim_memory_free(allocation);
    } else {
        pool->used -= allocation->size;
        if (pool->dying || !keep(pool, allocation)) {
            pool->reserved -= allocation->size;
            allocation->pool = NULL;
            sim_memory_free(allocation);
        }
        if (pool->dying && pool->used == 0)
            destroy(pool);
    }
    pthread_mutex_unlock(&lock);
}

void sim_pool_trim_all(unsigned card)
{
    if (atomic_load_explicit(&pool_count, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (CUmemoryPool pool = pools; pool != NULL; pool = pool->next)
        if (pool->card == card)
            shrink(pool, pool->threshold);
    pthread_mutex_unlock(&lock);
}

/* The context is being destroyed, and all memory of its pools with it. The pools themselves stay. */
void sim_pool_forget(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (CUmemoryPool pool = pools; pool != NULL; pool = pool->next) {
        if (pool->context != context)
            continue;
        pool->context = NULL;
        pool->count = 0;
        pool->used = pool->reserved = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- making and destroying pools ---- */

CUmemoryPool sim_pool_make(CUcontext context)
{
    CUmemoryPool pool = sim_handle_new(SIM_POOL, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->card = context->card;
    pool->context = context;
    pool->reuse[1] = pool->reuse[2] = pool->reuse[3] = 1;
    pthread_mutex_lock(&lock);
    pool->next = pools;
    pools = pool;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&pool_count, 1);
    return pool;
}

CUresult sim_pool_default(CUdevice device, CUmemoryPool *pool)
{
    unsigned card;
    CUcontext context;
    SIM_ENTER();
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_card_of(device, &card));
    if (sim.default_pools[card] == NULL) {
        SIM_TRY(sim_primary_retain(&context, device)); /* for good: the pool stays as long as the process */
        CUmemoryPool made = sim_pool_make(context);
        if (made == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        made->is_default = true;
        sim.default_pools[card] = made;
        if (sim.pools[card] == NULL)
            sim.pools[card] = made;
    }
    *pool = sim.default_pools[card];
    return CUDA_SUCCESS;
}

CUresult sim_pool_managed(CUdevice device, CUmemoryPool *pool)
{
    CUmemoryPool standard;
    SIM_TRY(sim_pool_default(device, &standard));
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim.managed_pools[standard->card] == NULL) {
        CUmemoryPool made = sim_pool_make(standard->context);
        if (made == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        made->is_default = made->managed = true;
        sim.managed_pools[standard->card] = made;
    }
    *pool = sim.managed_pools[standard->card];
    return CUDA_SUCCESS;
}

CUresult sim_pool_current(CUdevice device, CUmemoryPool *pool)
{
    unsigned card;
    SIM_TRY(sim_pool_default(device, pool));
    SIM_TRY(sim_card_of(device, &card));
    *pool = sim.pools[card];
    return CUDA_SUCCESS;
}

CUresult sim_pool_check(CUmemoryPool pool)
{
    SIM_ENTER();
    if (!sim_is(pool, SIM_POOL) || pool->dying)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_is(pool->context, SIM_CONTEXT) ? (CUresult)atomic_load(&pool->context->error) : CUDA_SUCCESS; /* as every call after a fault */
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_TRY(sim_pool_check(pool));
    if (pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (sim.pools[pool->card] == pool)
        sim.pools[pool->card] = sim.default_pools[pool->card];
    pool->dying = true; /* what is still in use is given back one by one */
    shrink(pool, 0);
    if (pool->used == 0)
        destroy(pool);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    SIM_TRY(sim_pool_check(pool));
    pthread_mutex_lock(&lock);
    shrink(pool, bytes);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- allocating ---- */

static CUresult from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    struct sim_allocation *allocation;
    uint64_t size = rounded(bytes);
    pthread_mutex_lock(&lock);
    allocation = take_kept(pool, size);
    uint32_t memory = pool->managed ? SIM_TRACE_MANAGED : pool->host ? SIM_TRACE_PINNED : SIM_TRACE_POOL;
    CUresult result = CUDA_SUCCESS;
    if (allocation == NULL) {
        result = sim_memory_new(pool->context, memory, size, &allocation);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && pool->count > 0) {
            shrink(pool, 0);
            result = sim_memory_new(pool->context, memory, size, &allocation);
        }
        if (result == CUDA_SUCCESS)
            pool->reserved += allocation->size;
    }
    if (result == CUDA_SUCCESS) {
        allocation->pool = pool;
        allocation->flags = 0;
        allocation->direct = true;
        pool->used += allocation->size;
        pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
        pool->reserved_high = pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
        *pointer = allocation->base;
    }
    pthread_mutex_unlock(&lock);
    if (result != CUDA_SUCCESS)
        return result;
    struct sim_op op = {.kind = SIM_OP_NOTHING};
    return sim_submit(stream, &op); /* keeps the order */
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool == NULL)
        SIM_TRY(sim_pool_current(stream->context->device, &pool));
    SIM_TRY(sim_pool_check(pool));
    if (pool->context == NULL)
        SIM_TRY(sim_primary_retain(&pool->context, stream->context->device));
    return stream->capture != NULL ? sim_capture_allocate(stream, pool, bytes, pointer) : from_pool(pointer, bytes, pool, stream);
}

static CUresult allocate_from(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread)
{
    SIM_TRY(sim_pool_check(pool));
    return allocate(pointer, bytes, pool, stream, per_thread);
}

static CUresult release(CUdeviceptr pointer, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (pointer == 0)
        return CUDA_SUCCESS;
    if (stream->capture != NULL)
        return sim_capture_free(stream, pointer);
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (allocation == NULL || allocation->base != pointer || (allocation->pool != NULL && allocation->flags != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (allocation->memory == SIM_TRACE_MANAGED && allocation->pool == NULL)
        return CUDA_ERROR_INVALID_VALUE; /* not from a pool and not from cuMemAlloc */
    struct sim_op op = {.kind = SIM_OP_NOTHING};
    if (!allocation->of_graph) { /* a graph's stays its own */
        op.kind = SIM_OP_FREE;
        op.u.free.address = pointer;
        allocation->flags = 1; /* being freed */
    }
    return sim_submit(stream, &op);
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) { return allocate(pointer, bytes, NULL, stream, false); }
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) { return allocate(pointer, bytes, NULL, stream, true); }
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) { return allocate_from(pointer, bytes, pool, stream, false); }
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) { return allocate_from(pointer, bytes, pool, stream, true); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) { return release(pointer, stream, false); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) { return release(pointer, stream, true); }
