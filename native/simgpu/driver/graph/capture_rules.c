/* The rules of stream capture.
 *
 * While a stream captures, what is submitted to it becomes nodes of a graph. A second stream joins by waiting for an
 * event that was recorded in the capture, and has to be joined again before the end. Calls that a graph cannot
 * represent are refused and make the capture invalid: synchronising or querying a capturing stream or its context, using
 * the legacy stream while a blocking stream captures, and, depending on the mode, calls that are unsafe because they may
 * synchronise implicitly. An invalid capture refuses everything until it is ended, and its end gives no graph. */
#include "driver/graph/capture.h"

static __thread CUstreamCaptureMode thread_mode; /* GLOBAL to begin with */

static bool forbids(const struct sim_capture *capture, uint64_t thread)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == thread)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_unsafe(void)
{
    if (atomic_load_explicit(&sim.captures, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    uint64_t thread = sim_thread_token();
    pthread_mutex_lock(&sim_capture_lock);
    for (struct sim_capture *capture = sim_captures; capture != NULL; capture = capture->next) {
        if (!forbids(capture, thread))
            continue;
        capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

CUresult sim_capture_invalidate(struct sim_capture *capture, CUresult result)
{
    pthread_mutex_lock(&sim_capture_lock);
    if (capture->invalid && result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture->invalid = true;
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

/* Invalidates the captures that streams of the context take part in; `blocking_only`: only those of blocking streams. */
static bool invalidate_context(CUcontext context, bool blocking_only)
{
    bool any = false;
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next) {
        if (stream->capture == NULL || (blocking_only && (stream->flags & CU_STREAM_NON_BLOCKING) != 0))
            continue;
        sim_capture_invalidate(stream->capture, CUDA_SUCCESS);
        any = true;
    }
    pthread_mutex_unlock(&context->lock);
    return any;
}

CUresult sim_capture_no_sync(CUstream stream)
{
    if (atomic_load_explicit(&sim.captures, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    if (stream->capture != NULL)
        return sim_capture_invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream == stream->context->legacy && atomic_load(&stream->context->capturing_blocking) != 0)
        return sim_capture_legacy(stream->context);
    return CUDA_SUCCESS;
}

CUresult sim_capture_no_context_sync(CUcontext context)
{
    if (atomic_load_explicit(&context->capturing, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    return invalidate_context(context, false) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult sim_capture_legacy(CUcontext context)
{
    return invalidate_context(context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER();
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
