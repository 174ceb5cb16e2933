#include "gate/slowness.h"

#include <stdbool.h>

enum { SLOW_SAMPLES = 3, FALLS = 8, RISES = 16 };

static void learn_usual(struct nvs_slowness *slowness, int64_t each_ns)
{
    int64_t change = each_ns - slowness->usual_ns;
    slowness->usual_ns += change < 0 ? change / FALLS : change / RISES;
    if (slowness->usual_ns < 1)
        slowness->usual_ns = 1;
}

static uint32_t sample(struct nvs_slowness *slowness, int64_t now_ns, int64_t each_ns)
{
    bool is_old = slowness->slow_samples >= SLOW_SAMPLES && now_ns - slowness->slow_since_ns > NVS_SLOWNESS_MOST_NS;
    if (!slowness->usual_ns || is_old)
        slowness->usual_ns = each_ns > 0 ? each_ns : 1;
    int64_t factor = each_ns / slowness->usual_ns;
    if (factor < NVS_SLOWNESS_LEAST) {
        slowness->slow_samples = 0;
        learn_usual(slowness, each_ns);
        return 0;
    }
    if (slowness->slow_samples++ == 0)
        slowness->slow_since_ns = slowness->since_ns;
    bool goes_on = slowness->slow_samples >= SLOW_SAMPLES && now_ns - slowness->slow_since_ns >= NVS_SLOWNESS_NS;
    return !goes_on ? 0 : factor > UINT32_MAX ? UINT32_MAX : (uint32_t)factor;
}

uint32_t nvs_slowness_note(struct nvs_slowness *slowness, int64_t now_ns, uint32_t turn, uint32_t submissions)
{
    bool goes_on = slowness->since_ns && slowness->turn == turn;
    slowness->submissions = goes_on ? slowness->submissions + submissions : 0;
    int64_t took = now_ns - slowness->since_ns;
    if (goes_on && (took < NVS_SLOWNESS_SAMPLE_NS || !slowness->submissions))
        return 0;
    uint32_t found = goes_on ? sample(slowness, now_ns, took / slowness->submissions) : 0;
    if (!goes_on)
        slowness->slow_samples = 0;
    slowness->since_ns = now_ns;
    slowness->turn = turn;
    slowness->submissions = 0;
    return found;
}
