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

static bool is_list_free(const void *nothing) { return (void)nothing, !is_list_locked; }

void nvs_lock_take(struct nvs_lock *lock)
{
    (void)lock;
    explore_await(is_list_free, NULL, "the list");
    is_list_locked = true;
}

void nvs_lock_give(struct nvs_lock *lock) { (void)lock, is_list_locked = false; }

/* Under the list's lock, as drain() is. */
bool nvs_stream_note(const struct nvs_stream_use *use)
{
    explore_await(is_list_free, NULL, "the list");
    streams[use->handle - FIRST_STREAM].is_noted = true;
    return true;
}

struct nvs_stream *nvs_stream_find(uintptr_t handle, bool create) { return (void)create, &streams[handle - FIRST_STREAM]; }
struct nvs_stream *nvs_stream_first(void) { return &streams[0]; }
struct nvs_stream *nvs_stream_after(const struct nvs_stream *at) { return at + 1 < streams + workers ? &streams[at + 1 - streams] : NULL; }
enum nvs_context_state nvs_context_state(CUcontext context) { return (void)context, NVS_CONTEXT_ALIVE; }
bool nvs_event_can_record(const struct nvs_stream *stream, uintptr_t handle) { return (void)stream, (void)handle, true; }
bool nvs_event_is_finished(CUevent event) { return (void)event, true; }

static void look_at(int number) { seen[number] = (int)atomic_load_explicit(&work[number], memory_order_relaxed); }

CUresult nvs_event_record(const struct nvs_stream *stream, CUevent *event, uintptr_t handle)
{
    (void)event, (void)handle;
    look_at((int)(stream - streams));
    return CUDA_SUCCESS;
}

void nvs_sleep_ns(int64_t ns) { (void)ns; }
/* A stream that was noted in vain has no work. The helper finds that out when it looks again, which the one of the model does not. */
bool nvs_drain_waits_for(const struct nvs_stream_use *use) { return (void)use, false; }

#define nvs_drain_waits_for shipped_waits_for
#include "gate/drain.c"
#undef nvs_drain_waits_for

#endif
