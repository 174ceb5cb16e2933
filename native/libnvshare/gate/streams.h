/* The streams of this process that work was submitted to, and which of them have to be drained. */
#ifndef NVS_STREAMS_H
#define NVS_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "gate/pacing.h"
#include "gate/slowness.h"
#include "lookup/symbols.h"

struct nvs_gpu;

struct nvs_stream {
    struct nvs_stream *next;
    uintptr_t handle; /* a stream, or 1 or 2: a context's legacy or per-thread default stream */
    CUcontext context;
    struct nvs_gpu *gpu;
    bool is_noted;     /* may have unfinished work: on the list to drain */
    bool is_capturing; /* a capture began on it */
    bool is_pacing;    /* a thread waits for `pacing_event` */
    bool is_pacing_event_pending; /* recorded, and not yet seen finished */
    uint32_t submitted; /* since `pacing_event` was recorded */
    struct nvs_pacing pacing;
    struct nvs_slowness slowness;
    CUevent pacing_event;
    bool is_asked;       /* a thread asks the driver for the drain: nobody else does */
    CUevent drain_event; /* recorded in drain attempt `drain_attempt` */
    uint32_t drain_attempt;
    uint32_t finished_attempt; /* in which its work was found finished */
};

/* What a thread that submits needs to know. */
struct nvs_stream_use {
    struct nvs_gpu *gpu;
    uintptr_t handle;
    uint32_t window; /* submissions until it must ask again */
};

/* Protects streams, contexts, drain events and the list of driver calls in progress (gate/calls.h). Never held across a driver
 * call. */
extern struct nvs_lock nvs_streams_lock;
/* How many streams a capture began on. Written under the lock. Read without it as a hint whether to ask the driver: a thread that
 * continues a capture has begun it, or has learned of it from the thread that began it, and so reads at least 1. */
extern _Atomic int nvs_streams_capturing;

static inline uintptr_t nvs_stream_handle(CUstream stream, enum nvs_variant variant)
{
    return stream ? (uintptr_t)stream : variant == NVS_PTDS ? (uintptr_t)CU_STREAM_PER_THREAD : (uintptr_t)CU_STREAM_LEGACY;
}

/* False if the submission passes no gate: there is no context, the stream captures, or the library cannot note it (no memory, or too many
 * contexts; each is said once). `spent`: submissions since the last call. May
 * wait, for the pacing. */
bool nvs_stream_use(uintptr_t handle, uint32_t spent, struct nvs_stream_use *use);
/* Puts the stream on the list to drain; false if it is gone. */
bool nvs_stream_note(const struct nvs_stream_use *use);
/* A stream is about to be destroyed. */
void nvs_stream_gone(CUstream stream);

/* Takes the lock. The stream's record, with `create` made if there is none, or NULL: nobody has used it, or with
 * `create` its context is not known (nvs_context_gpu) or there is no memory, which is said once. */
struct nvs_stream *nvs_stream_lock(uintptr_t handle, bool create);
/* Asks the driver. Needs no lock. */
bool nvs_stream_is_capturing(uintptr_t handle);

/* With the lock held. The context counts for a default stream only. */
struct nvs_stream *nvs_stream_find(uintptr_t handle, CUcontext context);
struct nvs_stream *nvs_stream_first(void);
struct nvs_stream *nvs_stream_after(const struct nvs_stream *stream);
/* No call uses the context (nvs_calls_await_context). */
void nvs_streams_forget_context(CUcontext context);

void nvs_streams_forked(void);

#endif
