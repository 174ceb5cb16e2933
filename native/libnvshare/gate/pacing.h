/* How many submissions there may be between two pacing events on a stream, so that queued work stays near 0.5 s. Pure. */
#ifndef NVS_PACING_H
#define NVS_PACING_H

#include <stdbool.h>
#include <stdint.h>

enum { NVS_PACING_MOST = 512, NVS_PACING_STREAMS_MOST = 16 };
#define NVS_PACING_WAIT_NS INT64_C(1000000000)

struct nvs_pacing {
    uint32_t window;      /* submissions between events; 0 stands for 1 */
    int64_t last_done_ns; /* when the last event was seen finished */
    bool is_long;         /* a window of one submission took longer than a window should */
    uint32_t skips;       /* long submissions that still do not wait for the one before */
    uint32_t in_vain;     /* waits in a row that were */
};

/* An event was seen finished `now`; returns the window to use from here. `streams`: how many share the GPU's queue. */
uint32_t nvs_pacing_learn(struct nvs_pacing *pace, int64_t now_ns, uint32_t streams);

/* Whether the next submission waits until all earlier ones have finished, so that only one is queued. */
bool nvs_pacing_is_single(struct nvs_pacing *pace);

/* It waited: until they had finished, or in vain for NVS_PACING_WAIT_NS. */
void nvs_pacing_waited(struct nvs_pacing *pace, bool have_finished);

#endif
