/* Stream-ordered allocation. A pool keeps what is freed into it and gives back to the card what exceeds its release
 * threshold when something is synchronised, as CUDA's pools do. Memory is handed out at once, not in stream order: an
 * allocation never has to wait for a free that is still queued, it takes new memory instead. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
    uint32_t kind;
    unsigned card;
    CUcontext context;
    bool is_default, dying;
    uint64_t threshold, reserved, reserved_high, used, used_high;
    int reuse[4];
    CUmemPoolProps properties;
    struct sim_allocation **kept;
    size_t count, room;
    CUmemoryPool next;
};

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

static void bury(CUmemoryPool pool)
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
            bury(pool);
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

/* ---- making pools ---- */

static CUmemoryPool make_pool(CUcontext context)
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

static CUresult default_pool(CUdevice device, CUmemoryPool *pool)
{
    unsigned card;
    CUcontext context;
    SIM_ENTER();
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_card_of(device, &card));
    if (sim.default_pools[card] == NULL) {
        SIM_TRY(sim_primary_retain(&context, device)); /* for good: the pool stays as long as the process */
        CUmemoryPool made = make_pool(context);
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

static CUresult current_pool(CUdevice device, CUmemoryPool *pool)
{
    unsigned card;
    SIM_TRY(default_pool(device, pool));
    SIM_TRY(sim_card_of(device, &card));
    *pool = sim.pools[card];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { return default_pool(device, pool); }
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return current_pool(device, pool); }

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (!sim_is(pool, SIM_POOL) || pool->card != card)
        return CUDA_ERROR_INVALID_VALUE;
    sim.pools[card] = pool;
    return CUDA_SUCCESS;
}

static CUresult located(const CUmemLocation *location, int type)
{
    SIM_ENTER();
    if (location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    SIM_TRY(located(location, type));
    return default_pool(location->id, pool);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    SIM_TRY(located(location, type));
    return current_pool(location->id, pool);
}

CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
    SIM_TRY(located(location, type));
    return cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUcontext context;
    SIM_ENTER();
    if (pool == NULL || properties == NULL || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    SIM_TRY(sim_primary_retain(&context, properties->location.id));
    *pool = make_pool(context);
    if (*pool == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*pool)->properties = *properties;
    return CUDA_SUCCESS;
}

static CUresult check(CUmemoryPool pool)
{
    SIM_ENTER();
    return sim_is(pool, SIM_POOL) && !pool->dying ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_TRY(check(pool));
    if (pool->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (sim.pools[pool->card] == pool)
        sim.pools[pool->card] = sim.default_pools[pool->card];
    pool->dying = true; /* what is still in use is given back one by one */
    shrink(pool, 0);
    if (pool->used == 0)
        bury(pool);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    SIM_TRY(check(pool));
    pthread_mutex_lock(&lock);
    shrink(pool, bytes);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    SIM_TRY(check(pool));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES && attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
        pool->reuse[attribute] = *(int *)value;
    else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = *(uint64_t *)value;
    else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && *(uint64_t *)value == 0)
        pool->reserved_high = pool->reserved;
    else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && *(uint64_t *)value == 0)
        pool->used_high = pool->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    SIM_TRY(check(pool));
    if (value == NULL || attribute < 1 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        *(int *)value = pool->reuse[attribute];
        return CUDA_SUCCESS;
    }
    const uint64_t numbers[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
    *(uint64_t *)value = numbers[attribute - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD];
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    unsigned card;
    SIM_TRY(check(pool));
    if (count > 0 && access == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        SIM_TRY(sim_card_of(access[i].location.id, &card));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    SIM_TRY(check(pool));
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; /* all cards reach all memory */
    return CUDA_SUCCESS;
}

/* ---- allocating ---- */

static CUresult from_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    struct sim_allocation *allocation;
    uint64_t size = rounded(bytes);
    if (pool->context == NULL)
        SIM_TRY(sim_primary_retain(&pool->context, stream->context->device));
    pthread_mutex_lock(&lock);
    allocation = take_kept(pool, size);
    CUresult result = CUDA_SUCCESS;
    if (allocation == NULL) {
        result = sim_memory_new(pool->context, SIM_TRACE_POOL, size, &allocation);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && pool->count > 0) {
            shrink(pool, 0);
            result = sim_memory_new(pool->context, SIM_TRACE_POOL, size, &allocation);
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
    return sim_submit(stream, &op); /* keeps the order, and is a node while capturing */
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool == NULL)
        SIM_TRY(current_pool(stream->context->device, &pool));
    SIM_TRY(check(pool));
    return from_pool(pointer, bytes, pool, stream);
}

static CUresult allocate_from(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, bool per_thread)
{
    SIM_TRY(check(pool));
    return allocate(pointer, bytes, pool, stream, per_thread);
}

static CUresult release(CUdeviceptr pointer, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (pointer == 0)
        return CUDA_SUCCESS;
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (allocation == NULL || allocation->base != pointer || (allocation->pool != NULL && allocation->flags != 0))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_op op = {.kind = SIM_OP_NOTHING};
    if (stream->capture == NULL) { /* a graph's memory stays its own: it may be launched again */
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

/* ---- sharing pools with other processes is not simulated ---- */

static CUresult not_shared(CUmemoryPool pool, const char *name)
{
    SIM_TRY(check(pool));
    sim_trace_unsupported(name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, int type, unsigned long long flags)
{
    (void)handle, (void)type, (void)flags;
    return not_shared(pool, "cuMemPoolExportToShareableHandle");
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, int type, unsigned long long flags)
{
    SIM_ENTER();
    (void)pool, (void)handle, (void)type, (void)flags;
    sim_trace_unsupported("cuMemPoolImportFromShareableHandle");
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    SIM_ENTER();
    (void)data;
    struct sim_allocation *allocation = sim_memory_at(pointer);
    return allocation == NULL ? CUDA_ERROR_INVALID_VALUE : not_shared(allocation->pool, "cuMemPoolExportPointer");
}

CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    (void)pointer, (void)data;
    return not_shared(pool, "cuMemPoolImportPointer");
}

/* ---- memory of graphs: nothing is pooled for them ---- */

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    return sim_card_of(device, &card);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (value == NULL || attribute < 0 || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *)value = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void *value)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    return value != NULL && high ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
