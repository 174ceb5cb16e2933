#include "drain.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "passage.h"
#include "process.h"

enum { MOST_ORPHANS = 256 };

/* Events left behind by streams that were destroyed or began to capture. */
static struct orphan {
    CUevent event;
    CUcontext context;
    struct nvs_gpu *gpu;
} orphans[MOST_ORPHANS];
static int orphan_count;
static uint32_t attempts[NVS_MAX_GPUS];
static _Atomic uint64_t waits_for_captures; /* bit g: GPU g must drain and cannot while something captures */

bool nvs_stream_may_capture(const struct nvs_stream *stream)
{
    return atomic_load(&nvs_captures) > 0 || !(atomic_load(&stream->gpu->gate->word) & NVS_WORD_OPEN);
}

bool nvs_stream_captures(const struct nvs_stream *stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream->handle == (uintptr_t)CU_STREAM_LEGACY)
        return false; /* it cannot, and asking is an error while others do */
    return nvs_real.cuStreamIsCapturing((CUstream)stream->handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUstreamCaptureMode relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    nvs_real.cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static void restore(CUstreamCaptureMode mode) { nvs_real.cuThreadExchangeStreamCaptureMode(&mode); }

static CUresult record_in_context(CUevent *event, uintptr_t handle)
{
    CUresult result = *event ? CUDA_SUCCESS : nvs_real.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = nvs_real.cuEventRecord(*event, (CUstream)handle);
    return result;
}

/* Records on `handle`, in the stream's context and in relaxed mode. */
static CUresult record(const struct nvs_stream *stream, CUevent *event, uintptr_t handle)
{
    CUcontext popped;
    if (!nvs_context_is_alive(stream->context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult result = nvs_real.cuCtxPushCurrent_v2(stream->context);
    if (result != CUDA_SUCCESS)
        return result;
    CUstreamCaptureMode mode = relax();
    result = record_in_context(event, handle);
    restore(mode);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result;
}

static bool is_finished(CUevent event)
{
    CUstreamCaptureMode mode = relax();
    CUresult result = nvs_real.cuEventQuery(event);
    restore(mode);
    return result != CUDA_ERROR_NOT_READY; /* an error means that nothing will come of it */
}

/* The legacy stream waits for every blocking stream and they for it: no business of ours while anything captures. */
static bool can_record(const struct nvs_stream *stream, uintptr_t handle)
{
    return handle == (uintptr_t)CU_STREAM_LEGACY ? atomic_load(&nvs_captures) == 0 : !nvs_stream_captures(stream);
}

static bool wait_for_mark(uintptr_t handle, CUevent mark)
{
    int64_t began = nvs_now_ns(), waited = 0;
    struct nvs_stream *stream;
    while ((stream = nvs_stream_find(handle, false)) && stream->mark == mark && !is_finished(mark)) {
        waited = nvs_now_ns() - began;
        if (waited > NVS_PACE_WAIT_NS)
            return true;
        nvs_lock_give(&nvs_streams_lock);
        if (waited > 20000)
            nvs_sleep_ns(waited < 2 * NVS_MS ? 50000 : 500000);
        nvs_lock_take(&nvs_streams_lock);
    }
    return stream && stream->mark == mark;
}

void nvs_stream_pace(struct nvs_stream *stream)
{
    uintptr_t handle = stream->handle;
    stream->is_pacing = true;
    if (stream->is_marked && !wait_for_mark(handle, stream->mark))
        return;
    stream->is_pacing = false;
    nvs_pace_learn(&stream->pace, nvs_now_ns(), stream->gpu->noted_streams);
    stream->is_marked = can_record(stream, handle) && record(stream, &stream->mark, handle) == CUDA_SUCCESS;
}

void nvs_drain_leave_orphan(struct nvs_stream *stream)
{
    CUevent event = NULL;
    if (orphan_count == MOST_ORPHANS || !can_record(stream, stream->handle))
        return;
    if (record(stream, &event, stream->handle) == CUDA_SUCCESS)
        orphans[orphan_count++] = (struct orphan){.event = event, .context = stream->context, .gpu = stream->gpu};
    else if (event)
        nvs_real.cuEventDestroy_v2(event);
}

void nvs_drain_drop_events(struct nvs_stream *stream)
{
    if (stream->mark)
        nvs_real.cuEventDestroy_v2(stream->mark);
    if (stream->last)
        nvs_real.cuEventDestroy_v2(stream->last);
    stream->mark = stream->last = NULL;
}

void nvs_drain_forget_context(CUcontext context)
{
    for (int i = 0; i < orphan_count;)
        if (orphans[i].context == context)
            orphans[i] = orphans[--orphan_count];
        else
            i++;
}

void nvs_drain_forked(void)
{
    orphan_count = 0;
    atomic_store(&waits_for_captures, 0);
}

bool nvs_drain_waits_for_captures(void) { return atomic_load(&waits_for_captures) != 0; }

void nvs_drain_end(const struct nvs_gpu *gpu) { atomic_fetch_and(&waits_for_captures, ~(UINT64_C(1) << gpu->index)); }

void nvs_drain_begin(struct nvs_gpu *gpu) { attempts[gpu->index]++; }

static bool orphans_finished(const struct nvs_gpu *gpu)
{
    bool all = true;
    for (int i = 0; i < orphan_count;) {
        if (orphans[i].gpu != gpu) {
            i++;
        } else if (!nvs_context_is_alive(orphans[i].context)) {
            orphans[i] = orphans[--orphan_count];
        } else if (is_finished(orphans[i].event)) {
            nvs_real.cuEventDestroy_v2(orphans[i].event);
            orphans[i] = orphans[--orphan_count];
        } else {
            all = false;
            i++;
        }
    }
    return all;
}

/* One stream: record once per attempt, then ask. */
static bool stream_finished(struct nvs_stream *stream, uint32_t attempt, bool is_urgent)
{
    /* Per-thread default streams have no handle that we could use; the legacy stream waits for them. */
    uintptr_t handle = stream->handle > 2 ? stream->handle : (uintptr_t)CU_STREAM_LEGACY;
    if (!nvs_context_is_alive(stream->context))
        return true;
    if (stream->attempt == attempt)
        return is_finished(stream->last);
    if (!can_record(stream, handle)) {
        /* A capturing stream's earlier work left an orphan when the capture began. */
        if (handle != (uintptr_t)CU_STREAM_LEGACY)
            return true;
        if (is_urgent)
            atomic_fetch_or(&waits_for_captures, UINT64_C(1) << stream->gpu->index);
        return false;
    }
    if (record(stream, &stream->last, handle) != CUDA_SUCCESS)
        return true;
    stream->attempt = attempt;
    return is_finished(stream->last);
}

bool nvs_drain_step(struct nvs_gpu *gpu, bool is_urgent)
{
    bool all = orphans_finished(gpu);
    nvs_drain_end(gpu);
    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu && at->is_noted && !stream_finished(at, attempts[gpu->index], is_urgent))
            all = false;
    /* The list is void before it is cleared: whoever noted a stream under the old word finds it changed and notes it
     * again. */
    if (!all || !nvs_gate_new_generation(gpu))
        return false;
    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu)
            at->is_noted = false;
    gpu->noted_streams = 0;
    return true;
}
