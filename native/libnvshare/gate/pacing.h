/* How many submissions there may be between two pacing events on a stream, so that queued work stays near 0.5 s. Pure. */
#ifndef NVS_PACING_H
#define NVS_PACING_H

#include <stdint.h>

enum { NVS_PACING_MOST = 512, NVS_PACING_STREAMS_MOST = 16 };
#define NVS_PACING_WAIT_NS INT64_C(1000000000)

struct nvs_pacing {
    uint32_t window;      /* submissions between events; 0 stands for 1 */
    int64_t last_done_ns; /* when the last event was seen finished */
};

/* An event was seen finished `now`; returns the window to use from here. `streams`: how many share the GPU's queue. */
uint32_t nvs_pacing_learn(struct nvs_pacing *pace, int64_t now_ns, uint32_t streams);

#endif
