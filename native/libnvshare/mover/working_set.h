/* The working set of the process: the part of its managed allocations that it has used recently. Pure.
 *
 *   without evidence        all of it: it will be used, or its use cannot be seen
 *   small, or one array     all of it, if any part of it was used recently
 *   an arena                from its base to the end of the last array in it that was used recently
 *   advised or prefetched   all of it: the program moves it itself
 *
 * "Recently": at most NVS_LATELY stamps ago (mover/usage.h). A pointer does not say how long an array is, and allocators fill an
 * arena upwards. So the last array of an arena ends where the next array begins that was ever used, or at the last chunk that was
 * ever used. If nothing above it was ever used, its length is the longest distance between two used chunks below it. */
#ifndef NVS_WORKING_SET_H
#define NVS_WORKING_SET_H

#include "mover/plan.h"

enum { NVS_LATELY = 15 };

/* The most that can be on the card of the process's managed memory: the same, but "recently" means ever, and without what is held
 * on the host. `is_blind`: uses were not all seen, so all of it. */
uint64_t nvs_working_set_ever(struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool is_blind);

/* In bytes. Also keeps old marks old (nvs_usage_keep_old). */
uint64_t nvs_working_set(struct nvs_usage *usage, const struct nvs_block *blocks, size_t count);

#endif
