#include "gate/events.h"

#include <stdatomic.h>

#include "gate/contexts.h"

/* The legacy stream waits for every blocking stream and they for it: an event on it while anything captures would break the
 * capture. */
bool nvs_event_can_record(const struct nvs_stream *stream, uintptr_t handle)
{
    return handle == (uintptr_t)CU_STREAM_LEGACY ? atomic_load(&nvs_streams_capturing) == 0 : !nvs_stream_is_capturing(stream);
}

CUstreamCaptureMode nvs_events_relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    nvs_real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void nvs_events_restore(CUstreamCaptureMode mode) { nvs_real.cuThreadExchangeStreamCaptureMode(&mode); }

static CUresult record_in_context(CUevent *event, uintptr_t handle)
{
    CUresult result = *event ? CUDA_SUCCESS : nvs_real.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = nvs_real.cuEventRecord(*event, (CUstream)handle);
    return result;
}

CUresult nvs_event_record(const struct nvs_stream *stream, CUevent *event, uintptr_t handle)
{
    CUcontext popped;
    if (nvs_context_state(stream->context) == NVS_CONTEXT_GONE)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult result = nvs_real.cuCtxPushCurrent_v2(stream->context);
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamCaptureMode mode = nvs_events_relax();
    result = record_in_context(event, handle);
    nvs_events_restore(mode);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

bool nvs_event_is_finished(CUevent event)
{
    CUstreamCaptureMode mode = nvs_events_relax();
    CUresult result = nvs_real.cuEventQuery(event);
    nvs_events_restore(mode);
    return result != CUDA_ERROR_NOT_READY; /* after an error there is nothing to wait for */
}
