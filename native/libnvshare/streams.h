/* The contexts and streams of this process, as far as they came through us, and which of them have work to drain. */
#ifndef NVS_STREAMS_H
#define NVS_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "pacing.h"
#include "platform.h"
#include "symbols.h"

struct nvs_gpu;

struct nvs_stream {
    struct nvs_stream *next;
    uintptr_t handle; /* a stream, or 1 or 2: a context's legacy or per-thread default stream */
    CUcontext context;
    struct nvs_gpu *gpu;
    bool is_noted;     /* may have work */
    bool is_capturing; /* a capture began on it */
    bool is_pacing;    /* a thread waits for `mark` */
    bool is_marked;    /* `mark` is recorded and not yet seen finished */
    uint32_t submitted;
    struct nvs_pace pace;
    CUevent mark;
    CUevent last; /* recorded to drain, in attempt `attempt` */
    uint32_t attempt;
};

/* What a passing thread needs to know. */
struct nvs_stream_use {
    struct nvs_gpu *gpu;
    uintptr_t handle;
    uint32_t window; /* submissions until it is to be asked again */
};

/* Held while streams or captures begin or end, and from asking whether a stream captures to recording on it. */
extern struct nvs_lock nvs_streams_lock;
/* How many captures are under way. */
extern _Atomic int nvs_captures;

/* False if the submission needs no gate: there is no context, or the stream captures. May wait, for the pacing. */
bool nvs_stream_use(uintptr_t handle, uint32_t spent, struct nvs_stream_use *use);
/* Notes the stream as one to drain; false if it is gone. */
bool nvs_stream_note(const struct nvs_stream_use *use);

/* With the lock held. `create`: make a record if there is none. */
struct nvs_stream *nvs_stream_find(uintptr_t handle, bool create);
struct nvs_stream *nvs_stream_first(void);
struct nvs_stream *nvs_stream_after(const struct nvs_stream *stream);
void nvs_streams_forked(void);

/* Contexts and streams come and go. Each takes the lock itself. */
void nvs_context_seen(CUcontext context);
void nvs_context_gone(CUcontext context);
void nvs_stream_gone(CUstream stream);
/* True while the context can be used: a primary context may have been reset unseen. Lock held. */
bool nvs_context_is_alive(CUcontext context);
CUcontext nvs_primary_context(int gpu);

#endif
