#include "gate/sampling.h"

#define BETWEEN_LOOKS_NS INT64_C(1000000)

/* At most twice as long as before: one burst is not the thread's pace. */
void nvs_sampling_looked(struct nvs_sampling *sampling, int64_t now_ns)
{
    uint32_t period = sampling->period ? sampling->period : 1;
    int64_t took = now_ns - sampling->looked_ns;
    uint32_t most = period * 2 + 1;
    uint64_t fit = (uint64_t)BETWEEN_LOOKS_NS * period / (uint64_t)(took > 0 ? took : 1);
    period = fit > most ? most : fit ? (uint32_t)fit : 1;
    sampling->period = period > NVS_SAMPLING_MOST ? NVS_SAMPLING_MOST : period;
    sampling->left = sampling->period;
    sampling->looked_ns = now_ns;
}
