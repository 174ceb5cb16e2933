/* At which instants to look whether work is unfinished, what an answer counts for, and what is reported to the scheduler (GPU_TIME).
 * Whether to look at all: client/looker.h. Pure.
 *
 * Theory of operation
 *
 * Look k is due at one instant between k and k + 1 milliseconds of the monotonic clock. Where in it is a hash of k, so all
 * processes look at the same instants, and work that comes back every millisecond does not escape.
 *
 *   rate      an answer counts for a block of looks, and is asked for at one of them, which a hash chooses. So the
 *             average is right, whatever the work does and however long blocks are. A block is 1 look; 4 while the last 8
 *             answers were the same; 16 while the last 64 were;
 *   lateness  if the answer came after its block, the first half of the looks since then has the answer before;
 *   reports   when there are NVS_LOOKS_DUE looks, or the next ones would not fit;
 *   quiet     after NVS_LOOKS_QUIET looks without work;
 *   unknown   if there was no answer for more than NVS_LOOKS_MOST looks, these are not reported. They count as busy while the lock
 *             is held. */
#ifndef NVS_LOOKS_H
#define NVS_LOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

enum { NVS_LOOKS_DUE = 192, NVS_LOOKS_QUIET = 128, NVS_LOOKS_BLOCK = 4, NVS_LOOKS_LONG_BLOCK = 16 };

/* One GPU_TIME. No looks: there is no work from look `first` on. */
struct nvs_look_report {
    uint64_t first;
    uint32_t count;
    uint64_t busy[4];
};

struct nvs_looks {
    struct nvs_look_report report; /* what is not reported yet */
    uint64_t last;                 /* the look of the last answer; if `is_begun` */
    uint64_t block_end;            /* the last look that this answer counts for */
    uint64_t idle_since;           /* the first look of those without work up to the last answer; if it was idle */
    uint32_t alike;                /* so many answers in a row were the same */
    bool is_begun, was_busy;
};

/* The look that was due last, and when the next one that should be made is due. */
uint64_t nvs_look_at(int64_t now_ns);
int64_t nvs_looks_next(const struct nvs_looks *looks, int64_t now_ns);

/* The answer at a look. True if `report` is to be sent. */
bool nvs_looks_saw(struct nvs_looks *looks, int64_t now_ns, bool busy, struct nvs_look_report *report);
/* So long without work that it is worth while to find out whether nothing was submitted. */
bool nvs_looks_are_quiet(const struct nvs_looks *looks);
/* Nothing more is looked at for now. True if `report` is to be sent: what was seen and not reported. */
bool nvs_looks_end(struct nvs_looks *looks, struct nvs_look_report *report);

#endif
