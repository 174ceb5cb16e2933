/* Contexts and streams. A drain must know them and must never use one that is destroyed, so each is forgotten, or put in doubt, before
 * the driver destroys it. If the driver refuses to destroy what was forgotten, its next use makes it known again. */
#include "gate/contexts.h"
#include "gate/streams.h"
#include "hooks/hooks.h"
#include "lookup/real.h"
#include "memory/entries.h"
#include "memory/memory.h"

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
    nvs_entries_context_gone(context);
}

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v2(c, flags, dev));
    return seen(nvs_real.cuCtxCreate_v2(c, flags, dev), c);
}

CUresult cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *p, int n, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v3(c, p, n, flags, dev));
    return seen(nvs_real.cuCtxCreate_v3(c, p, n, flags, dev), c);
}

CUresult cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *p, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v4(c, p, flags, dev));
    return seen(nvs_real.cuCtxCreate_v4(c, p, flags, dev), c);
}

CUresult cuCtxDestroy_v2(CUcontext c)
{
    NVS_BEGIN_HOOK(cuCtxDestroy_v2(c));
    forget(c);
    return nvs_real.cuCtxDestroy_v2(c);
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    NVS_BEGIN_HOOK(cuGreenCtxDestroy(green));
    CUcontext context = NULL;
    if (nvs_real.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS && context)
        forget(context);
    return nvs_real.cuGreenCtxDestroy(green);
}

/* A call that we did not see may have reset the primary context. The next one may have the same handle, but none of its streams and
 * events. */
static void forget_if_reset(CUdevice dev)
{
    CUcontext primary = nvs_context_primary(dev);
    unsigned flags;
    int active = 0;
    if (primary && nvs_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active)
        forget(primary);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuDevicePrimaryCtxRetain(c, dev));
    forget_if_reset(dev);
    return seen(nvs_real.cuDevicePrimaryCtxRetain(c, dev), c);
}

/* The driver counts the references to a primary context, and some are taken by calls that we do not see. Whether this was the last
 * one is known only after the call. Until then the context is not used, and its work and its frees are not forgotten. */
static CUresult release_primary(CUdevice dev, CUresult (*real)(CUdevice))
{
    CUcontext primary = nvs_context_primary(dev);
    unsigned flags;
    int active = 0;
    if (primary)
        nvs_context_may_end(primary);
    CUresult result = real(dev);
    if (!primary)
        return result;
    if (nvs_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active)
        forget(primary);
    else
        nvs_context_lives_on(primary);
    return result;
}

#define RELEASE_PRIMARY(symbol) \
    CUresult symbol(CUdevice dev) \
    { \
        NVS_BEGIN_HOOK(symbol(dev)); \
        return release_primary(dev, nvs_real.symbol); \
    }
RELEASE_PRIMARY(cuDevicePrimaryCtxRelease)
RELEASE_PRIMARY(cuDevicePrimaryCtxRelease_v2)
RELEASE_PRIMARY(cuDevicePrimaryCtxReset)
RELEASE_PRIMARY(cuDevicePrimaryCtxReset_v2)

static CUresult learn_context(CUresult result)
{
    CUcontext current = NULL;
    if (result == CUDA_SUCCESS && nvs_real.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current)
        nvs_context_seen(current);
    return result;
}

CUresult cuStreamCreate(CUstream *st, unsigned flags)
{
    NVS_BEGIN_HOOK(cuStreamCreate(st, flags));
    return learn_context(nvs_real.cuStreamCreate(st, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *st, unsigned flags, int priority)
{
    NVS_BEGIN_HOOK(cuStreamCreateWithPriority(st, flags, priority));
    return learn_context(nvs_real.cuStreamCreateWithPriority(st, flags, priority));
}

CUresult cuStreamDestroy_v2(CUstream st)
{
    NVS_BEGIN_HOOK(cuStreamDestroy_v2(st));
    if ((uintptr_t)st > 2)
        nvs_stream_gone(st);
    return nvs_real.cuStreamDestroy_v2(st);
}
