/* What to move, in which order: slices of the process's managed allocations. Pure.
 *
 * An allocation of up to NVS_LARGE_BYTES counts as used if any part of it was used. A larger one may be a framework's arena, of
 * which only a part is used: only the chunks move that were copied to or from, or that a kernel got a pointer into. If all
 * evidence is pointers to its beginning, it is one array, and all of it moves. An allocation that the program itself advises or
 * prefetches does not move. */
#ifndef NVS_PLAN_H
#define NVS_PLAN_H

#include <stddef.h>

#include "mover/usage.h"

#define NVS_LARGE_BYTES (UINT64_C(256) << 20)
#define NVS_SLICE_BYTES (UINT64_C(64) << 20)

static inline uint64_t nvs_plan_next_chunk(uint64_t address) { return (address | (NVS_CHUNK_BYTES - 1)) + 1; }

struct nvs_block { /* an allocation */
    uint64_t base, bytes;
};

/* What the marks say about a whole allocation. */
struct nvs_block_use {
    bool is_used, is_left_alone;
    bool is_whole; /* one array, or small: any use is a use of all of it */
    uint32_t age;  /* of the youngest use */
};

struct nvs_slice { /* a part of one allocation */
    uint64_t address, bytes;
    uint64_t base; /* of the allocation */
    uint32_t age;  /* stamps since it was used */
    bool is_away;  /* we moved it out earlier */
    bool is_assumed; /* of one large array: only its beginning is known to be used */
    bool is_unused; /* to be held: it was never used, so that it has no content anywhere */
};

struct nvs_block_use nvs_plan_look(const struct nvs_usage *usage, const struct nvs_block *block);

/* Fills `slices`, in the order in which they are to be moved, and returns their number. If they are more than `most_slices` or
 * `most_bytes`, the last ones are left out.
 *
 *   to the host   least recently used first; last the memory that we moved out before, which page faults may have brought back. Of
 *                 one age the highest address first, because programs begin at the lowest; but one large array from its
 *                 beginning, because its end may never have been used
 *   to the GPU    first what we moved out, then what the driver may have evicted; each most recently used first */
size_t nvs_plan_move(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool to_host,
                     uint64_t most_bytes, struct nvs_slice *slices, size_t most_slices);

/* How much is held (NVS_MARK_HELD). */
uint64_t nvs_plan_held(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count);
/* The same as nvs_plan_move for memory that is to be held, least recently used first; or, with `is_back`, for memory that is no
 * longer to be held, most recently used first. Whole chunks only. Memory that was never used comes first; if launches were not
 * seen, such memory may be in use. */
size_t nvs_plan_hold(const struct nvs_usage *usage, const struct nvs_block *blocks, size_t count, bool is_back, uint64_t bytes,
                     struct nvs_slice *slices, size_t most_slices);

#endif
