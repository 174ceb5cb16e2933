/* Contexts and streams come and go; a drain must know them and must never touch one that is gone, so each is forgotten
 * before the driver destroys it. If the driver then refuses, it is met again at its next use. */
#include "hooks.h"
#include "memory.h"
#include "streams.h"

CUresult cuInit(unsigned flags)
{
    if (nvs_real_load() != 0)
        return CUDA_ERROR_NO_DEVICE;
    CUresult result = nvs_real.cuInit(flags);
    if (result == CUDA_SUCCESS)
        nvs_process_ready();
    return result;
}

static CUresult seen(CUresult result, CUcontext *context)
{
    if (result == CUDA_SUCCESS && context && *context)
        nvs_context_seen(*context);
    return result;
}

static void forget(CUcontext context)
{
    nvs_context_gone(context);
    nvs_memory_context_gone(context);
}

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice dev)
{
    NVS_PASS_UNLESS_READY(cuCtxCreate_v2(c, flags, dev));
    return seen(nvs_real.cuCtxCreate_v2(c, flags, dev), c);
}

CUresult cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *p, int n, unsigned flags, CUdevice dev)
{
    NVS_PASS_UNLESS_READY(cuCtxCreate_v3(c, p, n, flags, dev));
    return seen(nvs_real.cuCtxCreate_v3(c, p, n, flags, dev), c);
}

CUresult cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *p, unsigned flags, CUdevice dev)
{
    NVS_PASS_UNLESS_READY(cuCtxCreate_v4(c, p, flags, dev));
    return seen(nvs_real.cuCtxCreate_v4(c, p, flags, dev), c);
}

CUresult cuCtxDestroy_v2(CUcontext c)
{
    NVS_PASS_UNLESS_READY(cuCtxDestroy_v2(c));
    forget(c);
    return nvs_real.cuCtxDestroy_v2(c);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice dev)
{
    NVS_PASS_UNLESS_READY(cuDevicePrimaryCtxRetain(c, dev));
    return seen(nvs_real.cuDevicePrimaryCtxRetain(c, dev), c);
}

/* The driver counts who retains it, and some do so unseen: only afterwards is it known whether that was the last.
 * Meanwhile nobody may use it, so it is forgotten first and met again if it lives. */
static CUresult primary_goes(CUdevice dev, CUresult (*real)(CUdevice))
{
    CUcontext primary = nvs_primary_context(dev);
    unsigned flags;
    int active = 0;
    if (primary)
        nvs_context_gone(primary);
    CUresult result = real(dev);
    if (!primary)
        return result;
    if (nvs_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active)
        nvs_memory_context_gone(primary);
    else
        nvs_context_seen(primary);
    return result;
}

#define PRIMARY_GOES(symbol) \
    CUresult symbol(CUdevice dev) \
    { \
        NVS_PASS_UNLESS_READY(symbol(dev)); \
        return primary_goes(dev, nvs_real.symbol); \
    }
PRIMARY_GOES(cuDevicePrimaryCtxRelease)
PRIMARY_GOES(cuDevicePrimaryCtxRelease_v2)
PRIMARY_GOES(cuDevicePrimaryCtxReset)
PRIMARY_GOES(cuDevicePrimaryCtxReset_v2)

static CUresult learn_context(CUresult result)
{
    CUcontext current = NULL;
    if (result == CUDA_SUCCESS && nvs_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        nvs_context_seen(current);
    return result;
}

CUresult cuStreamCreate(CUstream *st, unsigned flags)
{
    NVS_PASS_UNLESS_READY(cuStreamCreate(st, flags));
    return learn_context(nvs_real.cuStreamCreate(st, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *st, unsigned flags, int priority)
{
    NVS_PASS_UNLESS_READY(cuStreamCreateWithPriority(st, flags, priority));
    return learn_context(nvs_real.cuStreamCreateWithPriority(st, flags, priority));
}

CUresult cuStreamDestroy_v2(CUstream st)
{
    NVS_PASS_UNLESS_READY(cuStreamDestroy_v2(st));
    if ((uintptr_t)st > 2)
        nvs_stream_gone(st);
    return nvs_real.cuStreamDestroy_v2(st);
}
