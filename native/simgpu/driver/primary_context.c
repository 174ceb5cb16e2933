/* Primary contexts: one per device, made when first retained, destroyed with the last release. sim.lock guards them. */
#include "driver/driver.h"

static CUresult primary_unlocked(CUdevice device, CUcontext *context)
{
    unsigned card;
    SIM_TRY(sim_card_of(device, &card));
    if (sim.primaries[card] == NULL) {
        SIM_TRY(sim_context_make(device, sim.primary_flags[card], true, &sim.primaries[card]));
        sim_context_remember(sim.primaries[card]);
    }
    *context = sim.primaries[card];
    return CUDA_SUCCESS;
}

CUresult sim_primary_retain(CUcontext *context, CUdevice device)
{
    pthread_mutex_lock(&sim.lock);
    CUresult result = primary_unlocked(device, context);
    if (result == CUDA_SUCCESS)
        (*context)->primary_refs++;
    pthread_mutex_unlock(&sim.lock);
    return result;
}

static void drop_primary(unsigned card)
{
    CUcontext context = sim.primaries[card];
    sim.primaries[card] = NULL;
    sim_context_forget(context);
    sim_context_destroy(context);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    SIM_ENTER();
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_primary_retain(context, device);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    pthread_mutex_lock(&sim.lock);
    CUcontext context = sim.primaries[card];
    CUresult result = context != NULL && context->primary_refs > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && --context->primary_refs == 0)
        drop_primary(card);
    pthread_mutex_unlock(&sim.lock);
    return result;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    pthread_mutex_lock(&sim.lock);
    if (sim.primaries[card] != NULL)
        drop_primary(card);
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if ((flags & ~(unsigned)CU_CTX_FLAGS_MASK) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    sim.primary_flags[card] = flags;
    if (sim.primaries[card] != NULL)
        sim.primaries[card]->flags = flags;
    pthread_mutex_unlock(&sim.lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) { return cuDevicePrimaryCtxSetFlags_v2(device, flags); }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.lock);
    CUcontext context = sim.primaries[card];
    *flags = sim.primary_flags[card];
    *active = context != NULL;
    pthread_mutex_unlock(&sim.lock);
    sim_context_pass_lock(context);
    return CUDA_SUCCESS;
}
