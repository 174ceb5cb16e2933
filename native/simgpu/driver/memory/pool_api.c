/* Pools from outside: which is a device's, their attributes, and what is not simulated about them. */
#include "driver/memory/pool.h"

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { return sim_pool_default(device, pool); }
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return sim_pool_current(device, pool); }

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

static CUresult check_location(const CUmemLocation *location, int type)
{
    SIM_ENTER();
    if (location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED && sim.cuda_version >= 13000;
    return type == CU_MEM_ALLOCATION_TYPE_PINNED || is_managed ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    SIM_TRY(check_location(location, type));
    return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? sim_pool_managed(location->id, pool) : sim_pool_default(location->id, pool);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type)
{
    SIM_TRY(check_location(location, type));
    return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? sim_pool_managed(location->id, pool) : sim_pool_current(location->id, pool);
}

/* The managed pool of a device cannot be replaced here. */
CUresult cuMemSetMemPool(CUmemLocation *location, int type, CUmemoryPool pool)
{
    SIM_TRY(check_location(location, type));
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuDeviceSetMemPool(location->id, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    CUcontext context;
    SIM_ENTER();
    if (pool == NULL || properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int location = properties->location.type;
    bool host = location >= CU_MEM_LOCATION_TYPE_HOST && location <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    if (!host && location != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    bool managed = properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED && sim.cuda_version >= 13000;
    if ((properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && !managed) || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    SIM_TRY(sim_primary_retain(&context, host ? 0 : properties->location.id));
    *pool = sim_pool_make(context);
    if (*pool == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*pool)->host = host;
    (*pool)->managed = managed;
    (*pool)->properties = *properties;
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
    SIM_TRY(sim_pool_check(pool));
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
    SIM_TRY(sim_pool_check(pool));
    if (value == NULL || attribute < 1 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        *(int *)value = pool->reuse[attribute];
        return CUDA_SUCCESS;
    }
    sim_context_pass_lock(pool->context);
    const uint64_t numbers[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
    *(uint64_t *)value = numbers[attribute - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD];
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    unsigned card;
    SIM_TRY(sim_pool_check(pool));
    if (count > 0 && access == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        SIM_TRY(sim_card_of(access[i].location.id, &card));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location)
{
    SIM_TRY(sim_pool_check(pool));
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; /* all cards reach all memory */
    return CUDA_SUCCESS;
}

/* ---- sharing pools with other processes is not simulated ---- */

static CUresult not_shared(CUmemoryPool pool, const char *name)
{
    SIM_TRY(sim_pool_check(pool));
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
