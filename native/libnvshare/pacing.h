/* How many submissions may go by between two events of ours on a stream, so that what is queued stays near 0.5 s. */
#ifndef NVS_PACING_H
#define NVS_PACING_H

#include <stdint.h>

enum { NVS_PACE_MOST = 512, NVS_PACE_STREAMS_MOST = 16 };
#define NVS_PACE_WAIT_NS INT64_C(1000000000)

struct nvs_pace {
    uint32_t window;      /* submissions between events; 0 stands for 1 */
    int64_t last_done_ns; /* when the last event was seen finished */
};

/* An event was seen finished `now`; returns the window to use from here. `streams`: how many share the GPU's queue. */
uint32_t nvs_pace_learn(struct nvs_pace *pace, int64_t now_ns, uint32_t streams);

#endif
