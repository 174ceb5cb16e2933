/* Whether the work of a stream takes much longer than usual. Pure.
 *
 * A sample is the time of some submissions: at least NVS_SLOWNESS_SAMPLE_NS. Work is slow if
 *
 *   - in each of the last three samples a submission took NVS_SLOWNESS_LEAST times longer than usual (a pause is only one
 *     sample), and
 *   - the slow samples in a row took NVS_SLOWNESS_NS or more.
 *
 * Work that has been slow for NVS_SLOWNESS_MOST_NS counts as usual: the program does other work than before. */
#ifndef NVS_SLOWNESS_H
#define NVS_SLOWNESS_H

#include <stdint.h>

enum { NVS_SLOWNESS_LEAST = 4 };
#define NVS_SLOWNESS_SAMPLE_NS INT64_C(250000000)
#define NVS_SLOWNESS_NS INT64_C(2000000000)
#define NVS_SLOWNESS_MOST_NS INT64_C(30000000000)

struct nvs_slowness {
    int64_t since_ns;      /* when the present sample began; 0: there is none */
    uint32_t submissions;  /* in it */
    uint32_t turn;         /* in which it began: a number that changes with each */
    uint32_t slow_samples; /* one after the other */
    int64_t slow_since_ns;
    int64_t usual_ns;      /* of a submission; 0: not known */
};

/* `submissions` were made since the last call. Returns how many times longer than usual one takes if work is slow, else 0. Time
 * between two turns does not count. */
uint32_t nvs_slowness_note(struct nvs_slowness *slowness, int64_t now_ns, uint32_t turn, uint32_t submissions);

#endif
