/* Our own CUDA events on the program's streams, recorded so that they never disturb a capture. nvs_streams_lock is held
 * throughout. */
#ifndef NVS_EVENTS_H
#define NVS_EVENTS_H

#include <stdbool.h>

#include "gate/streams.h"

/* True if an event may be recorded on `handle` (the stream's own, or the legacy stream of its context) now. */
bool nvs_event_can_record(const struct nvs_stream *stream, uintptr_t handle);
/* Records *event, made if it is NULL, in the stream's context. */
CUresult nvs_event_record(const struct nvs_stream *stream, CUevent *event, uintptr_t handle);
/* In relaxed mode our calls are allowed while another thread captures in global mode. */
CUstreamCaptureMode nvs_events_relax(void);
void nvs_events_restore(CUstreamCaptureMode mode);
bool nvs_event_is_finished(CUevent event);

#endif
