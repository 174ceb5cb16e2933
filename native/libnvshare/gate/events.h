/* CUDA events of the library on the program's streams, recorded so that they never disturb a capture. nvs_streams_lock is held
 * before and after each call, and released while the driver is called (gate/calls.h), except where a comment says otherwise. */
#ifndef NVS_EVENTS_H
#define NVS_EVENTS_H

#include <stdbool.h>

#include "gate/streams.h"

enum nvs_event_record {
    NVS_EVENT_RECORDED,
    NVS_EVENT_CAPTURES, /* it may not be recorded now: the stream captures, or another one does and this is the legacy stream */
    NVS_EVENT_BEGINNING, /* nor now: a capture begins in the context */
    NVS_EVENT_REFUSED,  /* by the driver */
    NVS_EVENT_LOST,     /* the context is gone */
};
/* Records *event, made if it is NULL, on `handle` (the stream's own, or the legacy stream of its context). The stream's record
 * stays meanwhile. `must`: waits while a capture begins. */
enum nvs_event_record nvs_event_record(struct nvs_stream *stream, CUevent *event, uintptr_t handle, bool must);

enum nvs_event_state {
    NVS_EVENT_UNFINISHED,
    NVS_EVENT_FINISHED, /* or failed: there is nothing to wait for */
    NVS_EVENT_GONE,     /* with its context */
};
/* `handle`: of the stream whose record stays meanwhile, or 0. `ends`: an event that has finished is destroyed. */
enum nvs_event_state nvs_event_query(CUcontext context, uintptr_t handle, CUevent event, bool ends);
void nvs_event_destroy(CUcontext context, CUevent event);

/* In relaxed mode our calls are allowed while another thread captures in global mode. Needs no lock. */
CUstreamCaptureMode nvs_events_relax(void);
void nvs_events_restore(CUstreamCaptureMode mode);

#endif
