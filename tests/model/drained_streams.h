/* The streams of the model: the list to drain, its lock, and what gate/drain.c, as shipped, asks the driver about them. For gate.c. */
#ifndef MODEL_DRAINED_STREAMS_H
#define MODEL_DRAINED_STREAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "explore.h"
#include "gate/contexts.h"
#include "gate/drain.h"
#include "gate/events.h"
#include "gate/streams.h"

enum { MOST_WORKERS = 3, FIRST_STREAM = 64, MOST_GPUS = 2 };

struct nvs_lock nvs_streams_lock;
static int workers;
static struct nvs_stream streams[MOST_WORKERS];
static _Atomic uint64_t work[MOST_WORKERS]; /* what the driver has of each stream */
static int seen[MOST_WORKERS];              /* what the drain found in each stream */
static bool is_list_locked;
static uint64_t list_given_at;

static bool is_list_free(const void *nothing) { return (void)nothing, !is_list_locked; }

void nvs_lock_take(struct nvs_lock *lock)
{
    (void)lock;
    explore_await(is_list_free, NULL, "the list");
    explore_acquire(list_given_at);
    is_list_locked = true;
}

void nvs_lock_give(struct nvs_lock *lock) { (void)lock, is_list_locked = false, list_given_at = explore_now(); }

/* Under the list's lock, as drain() is. */
bool nvs_stream_note(const struct nvs_stream_use *use)
{
    explore_await(is_list_free, NULL, "the list");
    explore_acquire(list_given_at);
    list_given_at = explore_now();
    streams[use->handle - FIRST_STREAM].is_noted = true;
    return true;
}

struct nvs_stream *nvs_stream_lock(uintptr_t handle, bool create)
{
    nvs_lock_take(&nvs_streams_lock);
    return (void)create, &streams[handle - FIRST_STREAM];
}

struct nvs_stream *nvs_stream_first(void) { return &streams[0]; }
struct nvs_stream *nvs_stream_after(const struct nvs_stream *at) { return at + 1 < streams + workers ? &streams[at + 1 - streams] : NULL; }
struct nvs_context_life nvs_context_life(CUcontext context) { return (void)context, (struct nvs_context_life){NVS_CONTEXT_ALIVE, -1}; }
void nvs_event_destroy(CUcontext context, CUevent event) { (void)context, (void)event; }

/* As in gate/events.c, the list's lock is given back while the driver is called. */
enum nvs_event_state nvs_event_query(CUcontext context, uintptr_t handle, CUevent event, bool ends)
{
    (void)context, (void)handle, (void)event, (void)ends;
    nvs_lock_give(&nvs_streams_lock);
    explore_step("ask");
    nvs_lock_take(&nvs_streams_lock);
    return NVS_EVENT_FINISHED;
}

static void look_at(int number) { seen[number] = (int)atomic_load_explicit(&work[number], memory_order_relaxed); }

enum nvs_event_record nvs_event_record(struct nvs_stream *stream, CUevent *event, uintptr_t handle, bool must)
{
    (void)event, (void)handle, (void)must;
    nvs_lock_give(&nvs_streams_lock);
    look_at((int)(stream - streams));
    nvs_lock_take(&nvs_streams_lock);
    return NVS_EVENT_RECORDED;
}

void nvs_sleep_ns(int64_t ns) { (void)ns; }
/* A stream that was noted in vain has no work. The helper finds that out when it looks again, which the one of the model does not. */
bool nvs_drain_waits_for(const struct nvs_stream_use *use) { return (void)use, false; }

#define nvs_drain_waits_for shipped_waits_for
#include "gate/drain.c"
#undef nvs_drain_waits_for

#endif
