#include "gate/drain.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gate/contexts.h"
#include "gate/events.h"
#include "gate/gate.h"
#include "gate/threads.h"
#include "gpu.h"

enum { FIRST_ROOM = 256 };
#define LOOK_NS NVS_MS

/* Events of streams that were destroyed or began to capture. Those that have finished are removed before the table grows, so it is
 * never more than twice as big as the number of such streams that have had work under way at the same time. */
static struct kept_event {
    CUevent event;
    CUcontext context;
    struct nvs_gpu *gpu;
} *kept;
static int kept_count, kept_room;
static uint32_t attempts[NVS_MAX_GPUS];
/* Bit g: GPU g must drain and cannot while something captures. Read without the lock in hooks/capture.c as a hint: a stale value
 * lets one more capture begin, or holds one off for at most 50 ms. */
static _Atomic uint64_t waits_for_captures;

/* Removes the events that have finished, of one GPU, or of all if it is NULL; false if one is left. */
static bool kept_finished(const struct nvs_gpu *gpu)
{
    bool all = true;
    for (int i = 0; i < kept_count;) {
        if (gpu && kept[i].gpu != gpu) {
            i++;
            continue;
        }
        enum nvs_context_state state = nvs_context_state(kept[i].context);
        if (state == NVS_CONTEXT_GONE) {
            kept[i] = kept[--kept_count];
        } else if (state == NVS_CONTEXT_ALIVE && nvs_event_is_finished(kept[i].event)) {
            nvs_real.cuEventDestroy_v2(kept[i].event);
            kept[i] = kept[--kept_count];
        } else {
            all = false;
            i++;
        }
    }
    return all;
}

static bool make_room(void)
{
    if (kept_count < kept_room)
        return true;
    kept_finished(NULL);
    if (kept_count < kept_room / 2)
        return true;
    int room = kept_room ? 2 * kept_room : FIRST_ROOM;
    struct kept_event *grown = realloc(kept, (size_t)room * sizeof *kept);
    if (!grown)
        return kept_count < kept_room;
    kept = grown;
    kept_room = room;
    return true;
}

void nvs_drain_keep_event(struct nvs_stream *stream)
{
    CUevent event = NULL;
    if (!nvs_event_can_record(stream, stream->handle) || !make_room())
        return;
    if (nvs_event_record(stream, &event, stream->handle) == CUDA_SUCCESS)
        kept[kept_count++] = (struct kept_event){.event = event, .context = stream->context, .gpu = stream->gpu};
    else if (event)
        nvs_real.cuEventDestroy_v2(event);
}

void nvs_drain_forget_context(CUcontext context)
{
    for (int i = 0; i < kept_count;)
        if (kept[i].context == context)
            kept[i] = kept[--kept_count];
        else
            i++;
}

void nvs_drain_forked(void)
{
    kept = NULL; /* it may have been half moved when we forked: left where it is */
    kept_count = kept_room = 0;
    atomic_store(&waits_for_captures, 0);
}

bool nvs_drain_waits_for_captures(void) { return atomic_load(&waits_for_captures) != 0; }

void nvs_drain_end(const struct nvs_gpu *gpu) { atomic_fetch_and(&waits_for_captures, ~(UINT64_C(1) << gpu->index)); }

void nvs_drain_begin(struct nvs_gpu *gpu) { attempts[gpu->index]++; }

/* One stream: record once per attempt, then ask. */
static bool stream_finished(struct nvs_stream *stream, uint32_t attempt, bool may_delay_captures)
{
    /* Per-thread default streams have no handle that we could use; the legacy stream waits for them. */
    uintptr_t handle = stream->handle > 2 ? stream->handle : (uintptr_t)CU_STREAM_LEGACY;
    enum nvs_context_state state = nvs_context_state(stream->context);
    if (state != NVS_CONTEXT_ALIVE)
        return state == NVS_CONTEXT_GONE;
    if (stream->drain_attempt == attempt)
        return nvs_event_is_finished(stream->drain_event);
    if (!nvs_event_can_record(stream, handle)) {
        /* The work before the capture has an event of its own: nvs_drain_keep_event when the capture began. */
        if (handle != (uintptr_t)CU_STREAM_LEGACY)
            return true;
        if (may_delay_captures)
            atomic_fetch_or(&waits_for_captures, UINT64_C(1) << stream->gpu->index);
        return false;
    }
    if (nvs_event_record(stream, &stream->drain_event, handle) != CUDA_SUCCESS)
        return true;
    stream->drain_attempt = attempt;
    return nvs_event_is_finished(stream->drain_event);
}

bool nvs_drain_step(struct nvs_gpu *gpu, bool may_delay_captures)
{
    gpu->unfinished = !kept_finished(gpu);
    nvs_drain_end(gpu);
    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu && at->is_noted && !stream_finished(at, attempts[gpu->index], may_delay_captures))
            gpu->unfinished++;
    return gpu->unfinished == 0;
}

/* The generation changes before the list is cleared: a thread that noted its stream under the old word finds the word changed and
 * notes it again (enter_slow in gate/enter.c). */
bool nvs_drain_finish(struct nvs_gpu *gpu, bool was_closed)
{
    if (!nvs_gate_new_generation(gpu, was_closed))
        return false;
    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu)
            at->is_noted = false;
    gpu->noted_streams = 0;
    return true;
}

bool nvs_drain_waits_for(const struct nvs_stream_use *use)
{
    nvs_lock_take(&nvs_streams_lock);
    const struct nvs_stream *stream = nvs_stream_find(use->handle, false);
    bool is_finished = !stream || !stream->is_noted
                    || (stream->drain_attempt == attempts[use->gpu->index] && nvs_event_is_finished(stream->drain_event));
    nvs_lock_give(&nvs_streams_lock);
    return !is_finished;
}

bool nvs_drain_needs_driver(const struct nvs_gpu *gpu)
{
    for (int i = 0; i < kept_count; i++)
        if (kept[i].gpu == gpu)
            return true;
    return gpu->noted_streams > 0;
}

/* Several threads may do this at the same time: each begins a drain, and all ask about the last one. A drain that has begun says
 * nothing about work that comes in after the gate opens again, so it ends when open_count changes. */
void nvs_drain_in_thread(struct nvs_gpu *gpu, uint32_t open_count)
{
    bool has_begun = false, done = false;
    while (!done && atomic_load(&gpu->threads_drain)) {
        nvs_lock_take(&nvs_streams_lock);
        if (atomic_load(&gpu->open_count) != open_count) {
            nvs_lock_give(&nvs_streams_lock);
            return;
        }
        if (!has_begun && !nvs_threads_any_inside(gpu)) {
            nvs_drain_begin(gpu);
            has_begun = true;
        }
        done = has_begun && nvs_drain_step(gpu, true) && nvs_drain_finish(gpu, true);
        nvs_lock_give(&nvs_streams_lock);
        if (!done)
            nvs_sleep_ns(LOOK_NS);
    }
}
