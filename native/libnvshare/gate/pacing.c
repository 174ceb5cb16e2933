/* At most two windows are queued: the one whose event has not finished yet and the one being filled. A window of 125 to
 * 250 ms makes that 0.25 to 0.5 s. The time between two finished events is the time of one window's work if the GPU was busy, and
 * longer if it was not. So a window never becomes too long. A program that submits slowly gets a short window, which costs
 * it nothing.
 *
 * A single kernel can be longer than a window: one that populates its memory takes 0.5 s. Two of these would make a drain last 1 s. So
 * while single submissions take longer than HIGH_MS, each waits until the one before has finished. The CPU works beside the one that
 * runs, and the GPU is idle for the few microseconds until the next one is submitted. One wait may be in vain because much was
 * queued before. If three in a row are, the earlier kernel may need a later submission of the same thread: then 16 submissions do not
 * wait, and twice as many after each further wait in vain, up to 1024. */
#include "gate/pacing.h"

#define MS INT64_C(1000000)

enum { LOW_MS = 125, HIGH_MS = 250, AIM_MS = 187, IN_VAIN_FIRST = 3, IN_VAIN_MOST = 9 };

uint32_t nvs_pacing_learn(struct nvs_pacing *pace, int64_t now_ns, uint32_t streams)
{
    if (streams > NVS_PACING_STREAMS_MOST)
        streams = NVS_PACING_STREAMS_MOST;
    /* Several streams share the 0.5 s: each is treated as if its work took that many times longer. */
    int64_t own = now_ns - pace->last_done_ns, took = own * (streams ? streams : 1);
    uint32_t window = pace->window ? pace->window : 1;
    int known = pace->last_done_ns != 0;
    pace->is_long = known && window == 1 && own > HIGH_MS * MS;
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

bool nvs_pacing_is_single(struct nvs_pacing *pace)
{
    if (!pace->is_long)
        return false;
    if (pace->skips) {
        pace->skips--;
        return false;
    }
    return true;
}

void nvs_pacing_waited(struct nvs_pacing *pace, bool have_finished)
{
    pace->in_vain = have_finished ? 0 : pace->in_vain + (pace->in_vain < IN_VAIN_MOST);
    pace->skips = pace->in_vain < IN_VAIN_FIRST ? 0 : UINT32_C(16) << (pace->in_vain - IN_VAIN_FIRST);
}
