/* At most two windows are queued: the one whose event has not finished yet and the one being filled. A window of 125 to
 * 250 ms makes that 0.25 to 0.5 s. The time between two finished events is the time of one window's work if the GPU was busy, and
 * longer if it was not. So a window never becomes too long. A program that submits slowly gets a short window, which costs
 * it nothing. */
#include "gate/pacing.h"

#define MS INT64_C(1000000)

enum { LOW_MS = 125, HIGH_MS = 250, AIM_MS = 187 };

uint32_t nvs_pacing_learn(struct nvs_pacing *pace, int64_t now_ns, uint32_t streams)
{
    if (streams > NVS_PACING_STREAMS_MOST)
        streams = NVS_PACING_STREAMS_MOST;
    /* Several streams share the 0.5 s: each is treated as if its work took that many times longer. */
    int64_t took = (now_ns - pace->last_done_ns) * (streams ? streams : 1);
    uint32_t window = pace->window ? pace->window : 1;
    int known = pace->last_done_ns != 0;
    pace->last_done_ns = now_ns;
    if (known && took > HIGH_MS * MS) {
        uint64_t fit = (uint64_t)window * AIM_MS / (uint64_t)(took / MS);
        window = fit ? (uint32_t)fit : 1;
    } else if (known && took < LOW_MS * MS) {
        window *= 2;
    }
    pace->window = window > NVS_PACING_MOST ? NVS_PACING_MOST : window;
    return pace->window;
}
