/* Which launches of a thread are sampled for the memory that they use. Pure.
 *
 * A sample ("look") costs calls to the driver, so one launch in `period` is sampled. The period follows the rate of the
 * thread: about one sample per millisecond, but at least one in NVS_SAMPLING_MOST launches. In a slow thread every launch is
 * sampled. The rate varies, and so does the period: over time each launch of a loop is sampled. */
#ifndef NVS_SAMPLING_H
#define NVS_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

enum { NVS_SAMPLING_MOST = 251 };

struct nvs_sampling {
    uint32_t left, period; /* launches until the next look, and between the last two; 0 stands for 1 */
    int64_t looked_ns;
};

/* The next launch is to be sampled. */
static inline bool nvs_sampling_is_due(const struct nvs_sampling *sampling) { return sampling->left <= 1; }

/* A launch was not sampled: one store, to a cache line that the thread has written anyway. */
static inline void nvs_sampling_passed(struct nvs_sampling *sampling) { sampling->left--; }

/* It was sampled. */
void nvs_sampling_looked(struct nvs_sampling *sampling, int64_t now_ns);

#endif
