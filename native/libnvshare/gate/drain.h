/* Draining a GPU: waiting, without blocking, until all work on noted streams has finished. nvs_streams_lock is held before and after
 * each call, except where a comment says otherwise; nvs_drain_keep_event and nvs_drain_step release it while they call the driver. */
#ifndef NVS_DRAIN_H
#define NVS_DRAIN_H

#include <stdbool.h>

#include "gate/streams.h"

/* The stream will be destroyed or will begin to capture, so it cannot be asked later: records an event that the drain waits for
 * instead. */
void nvs_drain_keep_event(struct nvs_stream *stream);
/* No call uses the context (nvs_calls_await_context). */
void nvs_drain_forget_context(CUcontext context);
void nvs_drain_forked(void);

/* Starts a new drain of the GPU; events of an earlier one say nothing about later work. */
void nvs_drain_begin(struct nvs_gpu *gpu);
/* True when everything noted has finished, at the end of the step. Waits for the driver only. `may_delay_captures`: new captures may be delayed for it. */
bool nvs_drain_step(struct nvs_gpu *gpu, bool may_delay_captures);
/* Then: clears the list. False if work may have been submitted meanwhile. `was_closed`: the gate was closed when the drain began,
 * else it was watched. While an offer is open (gate/gate.h) the list is not cleared. */
bool nvs_drain_finish(struct nvs_gpu *gpu, bool was_closed);
/* True if something is to be drained, so that the driver must be asked. */
bool nvs_drain_needs_driver(const struct nvs_gpu *gpu);
/* True if the stream may have unfinished work. For a thread that may use the stream; takes the lock itself. */
bool nvs_drain_waits_for(const struct nvs_stream_use *use);
/* Drains while the gate stays closed, for a helper that must not call the driver any more. In a thread of the program that waits at
 * the gate, with no lock held. `wake_count` as read when the gate was found closed. */
void nvs_drain_in_thread(struct nvs_gpu *gpu, uint32_t wake_count);
/* True if work of a stream that was destroyed, or began to capture, is unfinished. Asks about `most` of them at most; gives the lock back
 * while it does. */
bool nvs_drain_has_kept(const struct nvs_gpu *gpu, int most);
/* New captures no longer wait for a drain of this GPU. Needs no lock. */
void nvs_drain_allow_captures(const struct nvs_gpu *gpu);
/* True while a drain waits for captures to end: new captures should wait. Needs no lock. */
bool nvs_drain_waits_for_captures(void);

#endif
