/* Whether a GPU has unfinished work of this process now. Unlike a drain, this records no events and has nothing to do with turns. */
#ifndef NVS_UNFINISHED_H
#define NVS_UNFINISHED_H

#include "client/looker.h"

struct nvs_gpu;

/* nvs_streams_lock is held before and after, and given back while the driver is called (gate/calls.h). Only the helper calls it. */
enum nvs_unfinished nvs_unfinished(const struct nvs_gpu *gpu);
void nvs_unfinished_forked(void);

#endif
