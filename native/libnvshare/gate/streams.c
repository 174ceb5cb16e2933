#include "gate/streams.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gate/calls.h"
#include "gate/contexts.h"
#include "gate/drain.h"
#include "gate/events.h"
#include "gate/gate.h"
#include "gpu.h"
#include "helper/session.h"

enum { BUCKETS = 256 };

struct nvs_lock nvs_streams_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_STREAMS);
_Atomic int nvs_streams_capturing;

static struct nvs_stream *buckets[BUCKETS];

static struct nvs_stream **bucket_of(uintptr_t handle, CUcontext context)
{
    uintptr_t key = handle > 2 ? handle : (uintptr_t)context + handle;
    return &buckets[(key ^ key >> 7 ^ key >> 15) % BUCKETS];
}

static CUcontext context_of_handle(uintptr_t handle)
{
    CUcontext context = NULL;
    CUgreenCtx green = NULL;
    if (handle > 2 && nvs_real.cuStreamGetCtx((CUstream)handle, &context) == CUDA_SUCCESS && context)
        return context;
    if (handle > 2 && nvs_real.cuStreamGetGreenCtx((CUstream)handle, &green) == CUDA_SUCCESS && green
        && nvs_real.cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS && context)
        return context;
    nvs_real.cuCtxGetCurrent(&context);
    return context;
}

struct nvs_stream *nvs_stream_find(uintptr_t handle, CUcontext context)
{
    for (struct nvs_stream *at = *bucket_of(handle, context); at; at = at->next)
        if (at->handle == handle && (handle > 2 || at->context == context))
            return at;
    return NULL;
}

/* The context may have been forgotten, and another thread may have made the record, while the driver was asked. */
static struct nvs_stream *add(struct nvs_stream *made)
{
    struct nvs_stream *known = nvs_stream_find(made->handle, made->context);
    if (known || nvs_context_life(made->context).state == NVS_CONTEXT_GONE) {
        free(made);
        return known;
    }
    struct nvs_stream **bucket = bucket_of(made->handle, made->context);
    made->next = *bucket;
    return *bucket = made;
}

static void say_unnoted(void)
{
    static _Atomic bool has_said;
    if (!atomic_exchange(&has_said, true))
        nvs_warn("no memory to note a stream: what is submitted to it does not wait for its turn");
}

struct nvs_stream *nvs_stream_lock(uintptr_t handle, bool create)
{
    CUcontext context = NULL;
    if (handle <= 2)
        nvs_real.cuCtxGetCurrent(&context);
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *stream = nvs_stream_find(handle, context);
    if (stream || !create)
        return stream;
    nvs_lock_give(&nvs_streams_lock);
    context = context_of_handle(handle);
    struct nvs_gpu *gpu = nvs_context_gpu(context);
    struct nvs_stream *made = gpu ? calloc(1, sizeof *made) : NULL;
    if (gpu && !made)
        say_unnoted();
    nvs_lock_take(&nvs_streams_lock);
    if (!made)
        return NULL;
    *made = (struct nvs_stream){.handle = handle, .context = context, .gpu = gpu};
    return add(made);
}

static struct nvs_stream *first_from(int bucket)
{
    while (bucket < BUCKETS && !buckets[bucket])
        bucket++;
    return bucket < BUCKETS ? buckets[bucket] : NULL;
}

struct nvs_stream *nvs_stream_first(void) { return first_from(0); }

struct nvs_stream *nvs_stream_after(const struct nvs_stream *stream)
{
    return stream->next ? stream->next : first_from((int)(bucket_of(stream->handle, stream->context) - buckets) + 1);
}

bool nvs_stream_is_capturing(uintptr_t handle)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (handle == (uintptr_t)CU_STREAM_LEGACY)
        return false; /* it cannot, and asking is an error while others do */
    return nvs_real.cuStreamIsCapturing((CUstream)handle, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Whether to ask the driver, which costs more: a capture is known, or the thread is about to wait at a closed gate. */
static bool may_be_capturing(const struct nvs_stream *stream)
{
    return atomic_load(&nvs_streams_capturing) > 0 || !(atomic_load(&stream->gpu->gate->word) & NVS_WORD_OPEN);
}

static uint32_t window_of(const struct nvs_stream *stream)
{
    if (!nvs_session_paces())
        return NVS_PACING_MOST; /* no other client to make way for */
    return stream->pacing.window ? stream->pacing.window : 1;
}

/* Waits until the event has finished, at most NVS_PACING_WAIT_NS: a kernel may wait for work that another thread has yet to submit.
 * Gives and takes the lock; returns the stream's record, or NULL if the stream is gone or was given another event meanwhile. */
static struct nvs_stream *wait_for_pacing_event(uintptr_t handle, CUcontext context, CUevent event)
{
    int64_t began = nvs_now_ns(), waited = 0;
    struct nvs_stream *stream;
    while ((stream = nvs_stream_find(handle, context)) && stream->pacing_event == event
           && nvs_event_query(context, handle, event, false) == NVS_EVENT_UNFINISHED) {
        waited = nvs_now_ns() - began;
        if (waited > NVS_PACING_WAIT_NS)
            return stream;
        nvs_lock_give(&nvs_streams_lock);
        if (waited > 20000)
            nvs_sleep_ns(waited < 2 * NVS_MS ? 50000 : 500000);
        nvs_lock_take(&nvs_streams_lock);
    }
    return stream && stream->pacing_event == event ? stream : NULL;
}

/* Waits for the last event, then records the next; between long submissions waits for that one too. Gives and takes the lock; the
 * stream may be gone after it. */
static void pace(struct nvs_stream *stream)
{
    uintptr_t handle = stream->handle;
    stream->is_pacing = true;
    if (stream->is_pacing_event_pending && !(stream = wait_for_pacing_event(handle, stream->context, stream->pacing_event)))
        return;
    nvs_pacing_learn(&stream->pacing, nvs_now_ns(), stream->gpu->noted_streams);
    stream->is_pacing_event_pending = nvs_event_record(stream, &stream->pacing_event, handle, false) == NVS_EVENT_RECORDED;
    if (stream->is_pacing_event_pending && nvs_pacing_is_single(&stream->pacing)) {
        int64_t began = nvs_now_ns();
        if (!(stream = wait_for_pacing_event(handle, stream->context, stream->pacing_event)))
            return;
        nvs_pacing_waited(&stream->pacing, nvs_now_ns() - began <= NVS_PACING_WAIT_NS);
    }
    stream->is_pacing = false;
}

static struct nvs_stream *lock_unless_capturing(uintptr_t handle)
{
    struct nvs_stream *stream = nvs_stream_lock(handle, true);
    if (!stream || !may_be_capturing(stream))
        return stream;
    nvs_lock_give(&nvs_streams_lock);
    bool is_capturing = nvs_stream_is_capturing(handle);
    stream = nvs_stream_lock(handle, true);
    return is_capturing ? NULL : stream;
}

/* Nothing is ordered by the two atomics. wake_count only tells one turn from the next; a stale one spoils one sample. `slowness` carries
 * its own value: pairs with the exchange in nvs_reports_tick (helper/reports.c), which takes each value once. Of two streams that store at
 * the same time one is reported, the other with its next sample. */
static void note_slowness(struct nvs_stream *stream, uint32_t spent)
{
    uint32_t slowness = nvs_slowness_note(&stream->slowness, nvs_now_ns(), atomic_load(&stream->gpu->wake_count), spent);
    if (slowness)
        atomic_store(&stream->gpu->slowness, slowness);
}

bool nvs_stream_use(uintptr_t handle, uint32_t spent, struct nvs_stream_use *use)
{
    struct nvs_stream *stream = lock_unless_capturing(handle);
    if (!stream) {
        nvs_lock_give(&nvs_streams_lock);
        return false;
    }
    stream->submitted += spent;
    note_slowness(stream, spent);
    if (stream->submitted >= window_of(stream) && !stream->is_pacing) {
        stream->submitted = 0;
        if (nvs_session_paces()) {
            pace(stream);
            nvs_lock_give(&nvs_streams_lock);
            stream = nvs_stream_lock(handle, true);
        }
    }
    if (stream) {
        uint32_t window = window_of(stream);
        *use = (struct nvs_stream_use){.gpu = stream->gpu, .handle = handle};
        use->window = stream->submitted < window ? window - stream->submitted : 1;
    }
    nvs_lock_give(&nvs_streams_lock);
    return stream != NULL;
}

bool nvs_stream_note(const struct nvs_stream_use *use)
{
    struct nvs_stream *stream = nvs_stream_lock(use->handle, true);
    if (stream && !stream->is_noted) {
        stream->is_noted = true;
        stream->gpu->noted_streams++;
    }
    nvs_lock_give(&nvs_streams_lock);
    return stream != NULL;
}

/* No call uses the stream. Its events are the caller's. */
static void stream_end(struct nvs_stream *stream)
{
    if (stream->is_capturing)
        atomic_fetch_sub(&nvs_streams_capturing, 1);
    if (stream->is_noted)
        stream->gpu->noted_streams--;
    nvs_gate_force_slow_path(stream->gpu);
    free(stream);
}

/* Taken out of its list when no call uses it, in the same hold of the lock: no call that begins later finds it. */
static struct nvs_stream *unlink_stream(uintptr_t handle)
{
    nvs_calls_await_stream(handle, NULL);
    for (struct nvs_stream **at = bucket_of(handle, NULL); *at; at = &(*at)->next)
        if ((*at)->handle == handle) {
            struct nvs_stream *gone = *at;
            *at = gone->next;
            return gone;
        }
    return NULL;
}

/* While its last event is recorded a drain may see both, the event and the stream: it waits for both. */
void nvs_stream_gone(CUstream handle)
{
    struct nvs_stream *stream = nvs_stream_lock((uintptr_t)handle, false);
    if (stream && stream->is_noted)
        nvs_drain_keep_event(stream);
    if ((stream = unlink_stream((uintptr_t)handle))) {
        CUcontext context = stream->context;
        CUevent events[] = {stream->pacing_event, stream->drain_event};
        stream_end(stream);
        nvs_event_destroy(context, events[0]);
        nvs_event_destroy(context, events[1]);
    }
    nvs_lock_give(&nvs_streams_lock);
}

/* The context takes their events with it. */
void nvs_streams_forget_context(CUcontext context)
{
    for (int i = 0; i < BUCKETS; i++)
        for (struct nvs_stream **at = &buckets[i]; *at;) {
            struct nvs_stream *gone = *at;
            if (gone->context != context) {
                at = &gone->next;
                continue;
            }
            *at = gone->next;
            stream_end(gone);
        }
}

void nvs_streams_forked(void)
{
    nvs_lock_reset(&nvs_streams_lock);
    memset(buckets, 0, sizeof buckets); /* the records belong to the parent's contexts: left where they are */
    nvs_contexts_forked();
    atomic_store(&nvs_streams_capturing, 0);
}
