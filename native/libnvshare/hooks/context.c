/* Contexts and streams, and cuInit. A drain must know them and must never use one that is destroyed. So a context is in doubt while the
 * driver may destroy it: then it is not used, but its work and its charges are not forgotten. A stream is forgotten before the driver
 * destroys it; if the driver refuses, its next use makes it known again. */
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
    nvs_entries_context_gone(context); /* memory may be in a context that is not known */
}

/* A new context. If its handle is known, that is of a context that ended: another thread is still in that call, or it was not seen. */
static CUresult made(CUresult result, CUcontext *context)
{
    if (result == CUDA_SUCCESS && context && *context)
        forget(*context);
    return seen(result, context);
}

/* After a call before which the context was put in doubt (nvs_context_may_end). */
static CUresult ended_or_not(CUresult result, CUcontext context, bool lives_on)
{
    if (lives_on)
        nvs_context_lives_on(context);
    else if (nvs_context_ended(context))
        nvs_entries_context_gone(context);
    return result;
}

/* Other errors may be those of earlier work: the context is destroyed all the same. */
static bool is_refusal(CUresult result)
{
    return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE
           || result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED || result == CUDA_ERROR_NOT_PERMITTED
           || result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_FOUND;
}

CUresult cuCtxCreate(CUcontext *c, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate(c, flags, dev));
    return made(nvs_real.cuCtxCreate(c, flags, dev), c);
}

CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v2(c, flags, dev));
    return made(nvs_real.cuCtxCreate_v2(c, flags, dev), c);
}

CUresult cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *p, int n, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v3(c, p, n, flags, dev));
    return made(nvs_real.cuCtxCreate_v3(c, p, n, flags, dev), c);
}

CUresult cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *p, unsigned flags, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuCtxCreate_v4(c, p, flags, dev));
    return made(nvs_real.cuCtxCreate_v4(c, p, flags, dev), c);
}

#define DESTROY(symbol) \
    CUresult symbol(CUcontext c) \
    { \
        NVS_BEGIN_HOOK(symbol(c)); \
        nvs_context_may_end(c); \
        CUresult result = nvs_real.symbol(c); \
        return ended_or_not(result, c, is_refusal(result)); \
    }
DESTROY(cuCtxDestroy)
DESTROY(cuCtxDestroy_v2)

/* The context is on the thread's stack twice if it is current although it was taken off; the driver says whether it is destroyed. */
static bool is_current(CUcontext context)
{
    CUcontext current = NULL;
    CUdevice device;
    nvs_real.cuCtxGetCurrent(&current);
    CUresult result = nvs_real.cuCtxGetDevice(&device);
    return current == context && result != CUDA_ERROR_CONTEXT_IS_DESTROYED && result != CUDA_ERROR_INVALID_CONTEXT;
}

/* Destroys a context that is attached only once, and takes it off the stack of the thread, to which it must be current. */
CUresult cuCtxDetach(CUcontext c)
{
    NVS_BEGIN_HOOK(cuCtxDetach(c));
    nvs_context_may_end(c);
    CUresult result = nvs_real.cuCtxDetach(c);
    return ended_or_not(result, c, is_refusal(result) || is_current(c));
}

/* A thread that makes it current may submit work to its default streams. */
CUresult cuCtxFromGreenCtx(CUcontext *c, CUgreenCtx green)
{
    NVS_BEGIN_HOOK(cuCtxFromGreenCtx(c, green));
    return seen(nvs_real.cuCtxFromGreenCtx(c, green), c);
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    NVS_BEGIN_HOOK(cuGreenCtxDestroy(green));
    CUcontext context = NULL;
    nvs_real.cuCtxFromGreenCtx(&context, green);
    nvs_context_may_end(context);
    CUresult result = nvs_real.cuGreenCtxDestroy(green);
    return ended_or_not(result, context, is_refusal(result));
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
 * one is known only after the call. Until then the context is not used, and its work and its frees are not forgotten. Memory is counted also
 * in a primary context that we do not know, so it is learned here: later nobody could tell which memory went with it. */
static CUresult release_primary(CUdevice dev, CUresult (*real)(CUdevice))
{
    CUcontext primary = nvs_context_learn_primary(dev);
    unsigned flags;
    int active = 0;
    if (primary)
        nvs_context_may_end(primary);
    CUresult result = real(dev);
    if (!primary)
        return result;
    bool is_gone = nvs_real.cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active;
    return ended_or_not(result, primary, !is_gone);
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

#define DESTROY_STREAM(symbol) \
    CUresult symbol(CUstream st) \
    { \
        NVS_BEGIN_HOOK(symbol(st)); \
        if ((uintptr_t)st > 2) \
            nvs_stream_gone(st); \
        return nvs_real.symbol(st); \
    }
DESTROY_STREAM(cuStreamDestroy)
DESTROY_STREAM(cuStreamDestroy_v2)
