/* Green contexts: parts of a device's multiprocessors. Here a context of its own, with all of them; its handle serves as both. */
#include "driver/driver.h"

enum { GREEN_DEFAULT_STREAM = 1 };

static CUresult check(CUgreenCtx green)
{
    CUcontext context = (CUcontext)green;
    SIM_ENTER();
    return sim_is_live(context, SIM_CONTEXT) && context->green ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device, unsigned int flags)
{
    CUcontext context;
    SIM_ENTER();
    (void)resources;
    if (green == NULL || flags != GREEN_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_context_make(device, CU_CTX_SCHED_AUTO, false, &context));
    sim_context_remember(context);
    context->green = true;
    *green = (CUgreenCtx)context;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx green)
{
    SIM_TRY(check(green));
    return cuCtxDestroy_v2((CUcontext)green);
}

CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
    SIM_TRY(check(green));
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
    SIM_TRY(check(green));
    if (stream == NULL || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_stream_add((CUcontext)green, flags, priority, 0, stream);
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, false, &stream));
    if (green == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *green = stream->context->green ? (CUgreenCtx)stream->context : NULL;
    return CUDA_SUCCESS;
}
