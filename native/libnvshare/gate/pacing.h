/* How many submissions there may be between two events of ours on a stream, so that queued work stays near 0.5 s, and whether they
 * take much longer than usual. Pure. */
#ifndef NVS_PACING_H
#define NVS_PACING_H

#include <stdint.h>

enum { NVS_PACING_MOST = 512, NVS_PACING_STREAMS_MOST = 16, NVS_PACING_SLOW = 4 };
#define NVS_PACING_SLOW_NS INT64_C(2000000000)
#define NVS_PACING_WAIT_NS INT64_C(1000000000)

struct nvs_pacing {
    uint32_t window;       /* submissions between events; 0 stands for 1 */
    int64_t last_done_ns;  /* when the last event was seen finished */
    uint32_t turn;         /* in which turn that was: a number that changes with each */
    uint32_t slow_windows; /* one after the other */
    int64_t slow_since_ns;
    int64_t usual_ns;      /* of a submission; 0: not known */
};

/* An event was seen finished `now`; returns the window to use from here. `streams`: how many share the GPU's queue. */
uint32_t nvs_pacing_learn(struct nvs_pacing *pace, int64_t now_ns, uint32_t streams);
/* A window of so many submissions is over; before nvs_pacing_learn. How many times longer than usual a submission takes, if it was
 * NVS_PACING_SLOW times or more for NVS_PACING_SLOW_NS, and otherwise 0. Time between two turns does not count. */
uint32_t nvs_pacing_slowness(struct nvs_pacing *pace, int64_t now_ns, uint32_t turn, uint32_t submissions);

#endif
