/* Our own events on the program's streams: to pace them, to drain them, and never to disturb a capture. Streams' lock
 * held throughout. */
#ifndef NVS_DRAIN_H
#define NVS_DRAIN_H

#include <stdbool.h>

#include "streams.h"

/* Worth asking the driver: something captures, or we are about to wait at a closed gate. */
bool nvs_stream_may_capture(const struct nvs_stream *stream);
bool nvs_stream_captures(const struct nvs_stream *stream);

/* Waits (at most 1 s, without the lock) until the last mark has finished, then sets the next. The stream may be gone
 * after it. */
void nvs_stream_pace(struct nvs_stream *stream);

/* What runs on the stream now is to be waited for although the stream will not be there or cannot be asked. */
void nvs_drain_leave_orphan(struct nvs_stream *stream);
void nvs_drain_drop_events(struct nvs_stream *stream);
void nvs_drain_forget_context(CUcontext context);
void nvs_drain_forked(void);

/* Starts to drain a GPU anew; events of an earlier attempt say nothing about later work. */
void nvs_drain_begin(struct nvs_gpu *gpu);
/* True when everything noted has finished; the notes are then cleared. Never blocks. `is_urgent`: new captures may be
 * held off for it. */
bool nvs_drain_step(struct nvs_gpu *gpu, bool is_urgent);
/* Nobody wants to know any more. */
void nvs_drain_end(const struct nvs_gpu *gpu);
/* True while a drain waits for captures to end: new ones should hold off. */
bool nvs_drain_waits_for_captures(void);

#endif
