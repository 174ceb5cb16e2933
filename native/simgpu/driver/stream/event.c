/* Events: marks in a stream that can be waited for, asked and timed. */
#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>

static _Atomic uint32_t live_events;

/* With NVSHARE_SIM_MOST_EVENTS: a program that has more events ends, because it does not destroy what it makes. */
static void count_live(void)
{
    if (atomic_fetch_add(&live_events, 1) < sim.most_events || sim.most_events == 0)
        return;
    fprintf(stderr, "nvshare simulated GPU: there are more than %u events\n", sim.most_events);
    abort();
}

void sim_event_release(CUevent event)
{
    if (atomic_fetch_sub(&event->references, 1) == 1) {
        free(event->capture_nodes);
        sim_event_unshare(event);
        sim_handle_free(event);
    }
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (event == NULL || (flags & ~7u) != 0 || (flags & 6u) == CU_EVENT_INTERPROCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *event = sim_handle_new(SIM_EVENT, sizeof **event);
    if (*event == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    count_live();
    (*event)->flags = flags;
    (*event)->context = context;
    (*event)->context_id = context->id;
    atomic_store(&(*event)->references, 1);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    SIM_ENTER();
    if (!sim_is(event, SIM_EVENT) || atomic_exchange(&event->destroyed, true))
        return CUDA_ERROR_INVALID_HANDLE;
    atomic_fetch_sub(&live_events, 1);
    sim_event_release(event);
    return CUDA_SUCCESS;
}

static CUresult check(CUevent event)
{
    SIM_ENTER();
    if (!sim_is_live(event, SIM_EVENT) || atomic_load(&event->destroyed))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_is(event->context, SIM_CONTEXT) || event->context->id != event->context_id)
        sim_handle_stale(); /* it ended with its context */
    return CUDA_SUCCESS;
}

/* A record is known by its place in a stream: records of several threads in several streams may be retired in another order
 * than they were made, and a wait is for the one that was the last when it was called. */
static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;

static void remember_place(CUevent event, uint64_t number, CUstream stream, uint64_t count)
{
    pthread_mutex_lock(&place_lock);
    if (number == atomic_load(&event->recorded)) {
        event->stream = stream;
        event->count = count;
        event->placed = number;
    }
    pthread_mutex_unlock(&place_lock);
}

static CUresult record(CUevent event, CUstream handle, unsigned flags, bool per_thread)
{
    CUstream stream;
    SIM_TRY(check(event));
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->context->device != event->context->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_event_is_imported(event)) {
        sim_trace_unsupported("cuEventRecord of another process's event");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    sim_context_pass_lock(stream->context);
    if (stream->capture != NULL && flags == CU_EVENT_RECORD_DEFAULT)
        return sim_capture_record(stream, event);
    struct sim_op op = {.kind = SIM_OP_EVENT};
    uint64_t count;
    op.u.event.event = event;
    if (stream->capture != NULL)
        return sim_submit(stream, &op);
    event->captured = false;
    atomic_fetch_add(&event->references, 1);
    op.u.event.number = atomic_fetch_add(&event->recorded, 1) + 1;
    sim_event_tell_recorded(event, op.u.event.number);
    CUresult result = sim_submit_counted(stream, &op, &count);
    if (result == CUDA_SUCCESS)
        remember_place(event, op.u.event.number, stream, count);
    else
        sim_event_release(event);
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, 0, false); }
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) { return record(event, stream, 0, true); }
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) { return record(event, stream, flags, false); }
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags) { return record(event, stream, flags, true); }

static CUresult wait(CUstream handle, CUevent event, unsigned flags, bool per_thread)
{
    CUstream stream;
    SIM_TRY(check(event));
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_event_is_imported(event))
        return sim_event_imported_order(event, stream);
    if (flags == 0 && (stream->capture != NULL || sim_event_is_captured(event)))
        return sim_capture_wait(stream, event);
    uint64_t number = atomic_load(&event->recorded);
    if (stream->capture == NULL && atomic_load(&event->completed.count) >= number)
        return CUDA_SUCCESS;
    struct sim_op op = {.kind = SIM_OP_WAIT_EVENT};
    op.u.event.event = event;
    if (stream->capture == NULL) {
        pthread_mutex_lock(&place_lock);
        op.u.event.number = number;
        op.u.event.stream = event->placed == number ? event->stream : NULL; /* a graph recorded it: by number */
        op.u.event.count = event->count;
        pthread_mutex_unlock(&place_lock);
        atomic_fetch_add(&event->references, 1);
    }
    CUresult result = sim_submit(stream, &op);
    if (result != CUDA_SUCCESS && op.u.event.number != 0)
        sim_event_release(event);
    return result;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) { return wait(stream, event, flags, false); }
CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) { return wait(stream, event, flags, true); }

static bool is_complete(CUevent event) { return atomic_load(&event->completed.count) >= atomic_load(&event->recorded); }

static bool has_ended(CUevent event)
{
    if (sim_event_is_imported(event))
        return sim_event_imported_is_done(event);
    if (!is_complete(event))
        sim_engine_catch_up(event->context->engine);
    return is_complete(event);
}

CUresult cuEventQuery(CUevent event)
{
    SIM_TRY(check(event));
    SIM_TRY(sim_capture_unsafe());
    sim_context_pass_lock(event->context);
    if (sim_event_is_captured(event))
        return CUDA_ERROR_CAPTURED_EVENT;
    SIM_TRY((CUresult)atomic_load(&event->context->error));
    return has_ended(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    SIM_TRY(check(event));
    SIM_TRY(sim_capture_unsafe());
    if (sim_event_is_captured(event))
        return CUDA_ERROR_CAPTURED_EVENT;
    if (sim_event_is_imported(event))
        sim_event_imported_wait(event);
    sim_counter_wait(&event->completed, atomic_load(&event->recorded));
    return (CUresult)atomic_load(&event->context->error);
}

/* In simulated milliseconds, so that a program measures the card it was promised whatever the scale. */
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    SIM_TRY(check(start));
    SIM_TRY(check(end));
    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 || atomic_load(&start->recorded) == 0
        || atomic_load(&end->recorded) == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_event_is_captured(start) || sim_event_is_captured(end))
        return CUDA_ERROR_CAPTURED_EVENT;
    if (!has_ended(start) || !has_ended(end))
        return CUDA_ERROR_NOT_READY;
    double real_ns = (double)(int64_t)(atomic_load(&end->time_ns) - atomic_load(&start->time_ns));
    *milliseconds = (float)(real_ns / sim_config()->scale * 1e-6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

/* ---- all of a context at once ---- */

CUresult cuCtxRecordEvent(CUcontext context, CUevent event)
{
    SIM_TRY(check(event));
    SIM_TRY(sim_context_check(context));
    return record(event, context->legacy, 0, false);
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent event)
{
    SIM_TRY(check(event));
    SIM_TRY(sim_context_check(context));
    return wait(context->legacy, event, 0, false);
}
