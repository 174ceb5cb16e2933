/* Which launches of a thread are looked at for the memory that they use. Pure.
 *
 * A look costs calls to the driver, so it is made for one launch in `period`. The period follows the thread's own pace: about one
 * look in each millisecond, but at least one in NVS_SAMPLING_MOST launches. A slow thread has each launch looked at. As the pace
 * varies, so does the period: each launch of a loop has its turn. */
#ifndef NVS_SAMPLING_H
#define NVS_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

enum { NVS_SAMPLING_MOST = 251 };

struct nvs_sampling {
    uint32_t left, period; /* launches until the next look, and between the last two; 0 stands for 1 */
    int64_t looked_ns;
};

/* The next launch is to be looked at. */
static inline bool nvs_sampling_is_due(const struct nvs_sampling *sampling) { return sampling->left <= 1; }

/* A launch was not looked at: one store, to a line that the thread has written to anyway. */
static inline void nvs_sampling_passed(struct nvs_sampling *sampling) { sampling->left--; }

/* It was looked at. */
void nvs_sampling_looked(struct nvs_sampling *sampling, int64_t now_ns);

#endif
