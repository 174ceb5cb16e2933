/* What a context says about itself. */
#include "driver/driver.h"

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    SIM_ENTER();
    if (context == NULL)
        return cuCtxGetDevice(device);
    if (!sim_is(context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    context->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    SIM_ENTER();
    if (context == NULL)
        SIM_TRY(sim_current(&context));
    if (!sim_is(context, SIM_CONTEXT))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    SIM_ENTER();
    if (context == NULL)
        SIM_TRY(sim_current(&context));
    if (!sim_is(context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER; /* the limits of all contexts, and what the card charges for them */

static bool known_limit(CUlimit limit)
{
    return limit >= CU_LIMIT_STACK_SIZE && limit <= CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known_limit(limit))
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&limits_lock);
    *value = context->limits[limit];
    pthread_mutex_unlock(&limits_lock);
    return CUDA_SUCCESS;
}

/* What heap and stacks take of the card beyond what is in every context. */
static uint64_t memory_of_limits(const uint64_t *limits)
{
    const uint64_t threads = 108 * 2048, heap = 8 << 20, stack = 1024; /* the card's threads, the defaults */
    uint64_t bytes = limits[CU_LIMIT_MALLOC_HEAP_SIZE] > heap ? limits[CU_LIMIT_MALLOC_HEAP_SIZE] - heap : 0;
    return bytes + (limits[CU_LIMIT_STACK_SIZE] > stack ? (limits[CU_LIMIT_STACK_SIZE] - stack) * threads : 0);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (!known_limit(limit))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (limit == CU_LIMIT_STACK_SIZE && value > 512 << 10)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&limits_lock);
    uint64_t before = memory_of_limits(context->limits), old = context->limits[limit];
    context->limits[limit] = value;
    uint64_t after = memory_of_limits(context->limits);
    CUresult result = after > before ? sim_charge(context->card, after - before) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        context->limits[limit] = old;
    else if (after < before)
        sim_uncharge(context->card, before - after);
    pthread_mutex_unlock(&limits_lock);
    return result;
}

void sim_context_uncharge_limits(CUcontext context)
{
    uint64_t bytes = memory_of_limits(context->limits);
    if (bytes > 0)
        sim_uncharge(context->card, bytes);
}

CUresult cuCtxGetCacheConfig(int *config)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = context->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(int config)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (config < 0 || config > 3)
        return CUDA_ERROR_INVALID_VALUE;
    context->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(int *config)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *config = context->shared_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(int config)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (config < 0 || config > 2)
        return CUDA_ERROR_INVALID_VALUE;
    context->shared_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    CUcontext context;
    return sim_current(&context);
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, int type)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (affinity == NULL || type != 0)
        return CUDA_ERROR_INVALID_VALUE;
    affinity->type = 0;
    affinity->param.smCount.val = 108;
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (!sim_is(peer, SIM_CONTEXT) || peer->card == context->card)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((context->peers & 1u << peer->card) != 0)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    context->peers |= 1u << peer->card;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (!sim_is(peer, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    if ((context->peers & 1u << peer->card) == 0)
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~(1u << peer->card);
    return CUDA_SUCCESS;
}
