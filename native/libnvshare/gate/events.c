#include "gate/events.h"

#include <stdatomic.h>

#include "gate/calls.h"
#include "gate/contexts.h"

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

static enum nvs_event_record record(CUcontext context, CUevent *event, uintptr_t handle)
{
    CUcontext popped;
    if (handle != (uintptr_t)CU_STREAM_LEGACY && nvs_stream_is_capturing(handle))
        return NVS_EVENT_CAPTURES;
    if (nvs_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return NVS_EVENT_REFUSED;
    CUstreamCaptureMode mode = nvs_events_relax();
    CUresult result = record_in_context(event, handle);
    nvs_events_restore(mode);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS ? NVS_EVENT_RECORDED : NVS_EVENT_REFUSED;
}

/* The legacy stream waits for every blocking stream and they for it: an event on it while anything captures would break the
 * capture. Whether something does is looked at when no capture begins in the context. */
enum nvs_event_record nvs_event_record(struct nvs_stream *stream, CUevent *event, uintptr_t handle, bool must)
{
    struct nvs_call call = {.context = stream->context, .handle = stream->handle, .kind = NVS_CALL_RECORDS};
    if (nvs_calls_have_kind(call.context, NVS_CALL_CAPTURES) && !must)
        return NVS_EVENT_BEGINNING;
    nvs_calls_await_kind(call.context, NVS_CALL_CAPTURES);
    struct nvs_context_life life = nvs_context_life(call.context);
    if (life.state == NVS_CONTEXT_GONE)
        return NVS_EVENT_LOST;
    if (handle == (uintptr_t)CU_STREAM_LEGACY && atomic_load(&nvs_streams_capturing) != 0)
        return NVS_EVENT_CAPTURES;
    CUevent recorded = *event;
    nvs_call_begin(&call);
    enum nvs_event_record answer = nvs_context_goes_on(&life) ? record(call.context, &recorded, handle) : NVS_EVENT_LOST;
    nvs_call_end(&call);
    *event = recorded;
    return answer;
}

static bool is_finished(CUevent event)
{
    CUstreamCaptureMode mode = nvs_events_relax();
    CUresult result = nvs_real.cuEventQuery(event);
    nvs_events_restore(mode);
    return result != CUDA_ERROR_NOT_READY; /* after an error there is nothing to wait for */
}

enum nvs_event_state nvs_event_query(CUcontext context, uintptr_t handle, CUevent event, bool ends)
{
    struct nvs_call call = {.context = context, .handle = handle};
    struct nvs_context_life life = nvs_context_life(context);
    enum nvs_event_state state = NVS_EVENT_GONE;
    if (life.state == NVS_CONTEXT_GONE)
        return state;
    nvs_call_begin(&call);
    if (nvs_context_goes_on(&life))
        state = is_finished(event) ? NVS_EVENT_FINISHED : NVS_EVENT_UNFINISHED;
    if (state == NVS_EVENT_FINISHED && ends)
        nvs_real.cuEventDestroy_v2(event);
    nvs_call_end(&call);
    return state;
}

void nvs_event_destroy(CUcontext context, CUevent event)
{
    struct nvs_call call = {.context = context};
    struct nvs_context_life life = nvs_context_life(context);
    if (!event || life.state == NVS_CONTEXT_GONE)
        return;
    nvs_call_begin(&call);
    if (nvs_context_goes_on(&life))
        nvs_real.cuEventDestroy_v2(event);
    nvs_call_end(&call);
}
