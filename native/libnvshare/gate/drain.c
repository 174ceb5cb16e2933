#include "gate/drain.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gate/contexts.h"
#include "gate/events.h"
#include "gate/gate.h"
#include "gate/threads.h"
#include "gpu.h"

enum { FIRST_MOST_KEPT = 256 };
#define LOOK_NS NVS_MS

/* Events of streams that were destroyed or began to capture. Those that have finished are removed before there are more than
 * `most_kept`, so there are at most twice as many as such streams that had unfinished work at the same time. */
static struct kept_event {
    struct kept_event *next, *before;
    CUevent event;
    CUcontext context;
    struct nvs_gpu *gpu;
    bool is_asked; /* by a thread that calls the driver: nobody else asks about it, and it stays */
} *kept;
static int kept_count, most_kept = FIRST_MOST_KEPT;
static uint32_t attempts[NVS_MAX_GPUS];
/* Bit g: GPU g must drain and cannot while something captures. Read without the lock in hooks/capture.c as a hint: a stale value
 * lets one more capture begin, or holds one off for at most 50 ms. */
static _Atomic uint64_t waits_for_captures;

static void add_kept(struct kept_event *made)
{
    made->next = kept;
    if (kept)
        kept->before = made;
    kept = made;
    kept_count++;
}

static struct kept_event *remove_kept(struct kept_event *gone)
{
    struct kept_event *next = gone->next;
    if (gone->before)
        gone->before->next = next;
    else
        kept = next;
    if (next)
        next->before = gone->before;
    free(gone);
    kept_count--;
    return next;
}

/* Removes the events that have finished, of one GPU, or of all if it is NULL. */
static void ask_kept(const struct nvs_gpu *gpu)
{
    for (struct kept_event *at = kept; at;) {
        bool is_meant = (!gpu || at->gpu == gpu) && !at->is_asked && nvs_context_life(at->context).state != NVS_CONTEXT_IN_DOUBT;
        at->is_asked = at->is_asked || is_meant;
        bool is_over = is_meant && nvs_event_query(at->context, 0, at->event, true) != NVS_EVENT_UNFINISHED;
        at->is_asked = at->is_asked && !is_meant;
        at = is_over ? remove_kept(at) : at->next;
    }
}

/* Where the list goes on is looked up after the call: the entry that was asked about stays. What has finished is removed, so that it
 * is not asked about again, before older events that have not. */
bool nvs_drain_has_kept(const struct nvs_gpu *gpu, int most)
{
    for (struct kept_event *at = kept; at && most > 0;) {
        if (at->gpu != gpu || at->is_asked || nvs_context_life(at->context).state == NVS_CONTEXT_IN_DOUBT) {
            at = at->next;
            continue;
        }
        at->is_asked = true;
        bool is_unfinished = nvs_event_query(at->context, 0, at->event, true) == NVS_EVENT_UNFINISHED;
        at->is_asked = false;
        if (is_unfinished)
            return true;
        at = remove_kept(at);
        most--;
    }
    return false;
}

static uint32_t count_kept(const struct nvs_gpu *gpu)
{
    uint32_t count = 0;
    for (const struct kept_event *at = kept; at; at = at->next)
        count += at->gpu == gpu;
    return count;
}

void nvs_drain_keep_event(struct nvs_stream *stream)
{
    struct kept_event *made = calloc(1, sizeof *made);
    if (!made)
        return;
    *made = (struct kept_event){.context = stream->context, .gpu = stream->gpu};
    if (nvs_event_record(stream, &made->event, stream->handle, true) != NVS_EVENT_RECORDED) {
        nvs_event_destroy(made->context, made->event);
        free(made);
        return;
    }
    add_kept(made);
    if (kept_count <= most_kept)
        return;
    ask_kept(NULL);
    most_kept = 2 * kept_count > FIRST_MOST_KEPT ? 2 * kept_count : FIRST_MOST_KEPT;
}

void nvs_drain_forget_context(CUcontext context)
{
    for (struct kept_event *at = kept; at;)
        at = at->context == context ? remove_kept(at) : at->next;
}

void nvs_drain_forked(void)
{
    kept = NULL; /* the parent's: left where they are */
    kept_count = 0;
    most_kept = FIRST_MOST_KEPT;
    atomic_store(&waits_for_captures, 0);
}

bool nvs_drain_waits_for_captures(void) { return atomic_load(&waits_for_captures) != 0; }

void nvs_drain_allow_captures(const struct nvs_gpu *gpu) { atomic_fetch_and(&waits_for_captures, ~(UINT64_C(1) << gpu->index)); }

void nvs_drain_begin(struct nvs_gpu *gpu) { attempts[gpu->index]++; }

static bool has_recorded(struct nvs_stream *stream, uint32_t attempt, bool may_delay_captures)
{
    /* Per-thread default streams have no handle that we could use; the legacy stream waits for them. */
    uintptr_t handle = stream->handle > 2 ? stream->handle : (uintptr_t)CU_STREAM_LEGACY;
    switch (nvs_event_record(stream, &stream->drain_event, handle, false)) {
    case NVS_EVENT_RECORDED:
        stream->drain_attempt = attempt;
        return true;
    case NVS_EVENT_BEGINNING:
        return false;
    case NVS_EVENT_CAPTURES:
        if (handle == (uintptr_t)CU_STREAM_LEGACY) {
            if (may_delay_captures)
                atomic_fetch_or(&waits_for_captures, UINT64_C(1) << stream->gpu->index);
            return false;
        }
        /* The work before the capture has an event of its own: nvs_drain_keep_event when the capture began. */
        stream->finished_attempt = attempt;
        return false;
    default: /* there is nothing to wait for */
        stream->finished_attempt = attempt;
        return false;
    }
}

/* One stream: record once per attempt, then ask. */
static void ask_stream(struct nvs_stream *stream, uint32_t attempt, bool may_delay_captures)
{
    enum nvs_context_state state = nvs_context_life(stream->context).state;
    if (stream->is_asked || state == NVS_CONTEXT_IN_DOUBT)
        return;
    stream->is_asked = true;
    if ((stream->drain_attempt == attempt || has_recorded(stream, attempt, may_delay_captures))
        && nvs_event_query(stream->context, stream->handle, stream->drain_event, false) != NVS_EVENT_UNFINISHED)
        stream->finished_attempt = attempt;
    stream->is_asked = false;
}

static uint32_t count_unfinished(const struct nvs_gpu *gpu)
{
    uint32_t count = count_kept(gpu);
    for (const struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        count += at->gpu == gpu && at->is_noted && at->finished_attempt != attempts[gpu->index];
    return count;
}

/* The lock is released for each driver call. Meanwhile streams may be destroyed, noted or begin to capture, and another drain may
 * begin. So what was found out stays with the stream, with the number of the attempt, and the result is counted in the end, in one hold
 * of the lock. A stream that is asked about stays in the list: nvs_stream_gone waits for the call. */
bool nvs_drain_step(struct nvs_gpu *gpu, bool may_delay_captures)
{
    nvs_drain_allow_captures(gpu);
    ask_kept(gpu);
    for (struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at))
        if (at->gpu == gpu && at->is_noted && at->finished_attempt != attempts[gpu->index])
            ask_stream(at, attempts[gpu->index], may_delay_captures);
    gpu->unfinished = count_unfinished(gpu);
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
    const struct nvs_stream *stream = nvs_stream_lock(use->handle, false);
    uint32_t attempt = attempts[use->gpu->index];
    bool is_finished = !stream || !stream->is_noted || stream->finished_attempt == attempt
                    || (stream->drain_attempt == attempt
                        && nvs_event_query(stream->context, stream->handle, stream->drain_event, false) != NVS_EVENT_UNFINISHED);
    nvs_lock_give(&nvs_streams_lock);
    return !is_finished;
}

bool nvs_drain_needs_driver(const struct nvs_gpu *gpu) { return gpu->noted_streams > 0 || count_kept(gpu) > 0; }

/* Several threads may do this at the same time: each begins a drain, and all ask about the last one. A drain that has begun says
 * nothing about work that is submitted after the gate opens again, so it ends when wake_count changes.
 *
 * threads_drain pairs with nvs_drains_stop, which clears it: a stale value costs one more step, which is harmless while the gate is
 * closed. wake_count pairs with nvs_gate_open, which opens the gate before it raises the count; if only the gate is seen open,
 * nvs_gate_new_generation refuses. Without the count a gate that was opened and closed again would look as if it had stayed closed. */
void nvs_drain_in_thread(struct nvs_gpu *gpu, uint32_t wake_count)
{
    bool has_begun = false, done = false;
    while (!done && atomic_load(&gpu->threads_drain)) {
        nvs_lock_take(&nvs_streams_lock);
        if (atomic_load(&gpu->wake_count) != wake_count) {
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
