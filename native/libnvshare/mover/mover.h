/* The mover: brings the process's managed memory to a GPU in bulk when the process gets the GPU's lock, and moves as much to the
 * host as the scheduler asks for after the lock is released. docs/decisions/0012-mover.md.
 *
 * All of it runs in the helper thread. It never waits for the GPU: slices go to a stream of the library, at most four at a time,
 * and an event shows when one has arrived. No lock of the library is held while the driver is called; nvs_context_use keeps a
 * context alive that the program destroys meanwhile. */
#ifndef NVS_MOVER_H
#define NVS_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"
#include "lookup/symbols.h"
#include "mover/plan.h"

struct nvs_moved {
    bool to_host;
    uint64_t bytes;
    uint64_t left; /* how much of the process's managed memory can still be on the card after a move to the host */
    int64_t ns;
};

/* Begins a move of at most `bytes`; a move in progress ends first. */
void nvs_mover_start(struct nvs_gpu *gpu, bool to_host, uint64_t bytes);
/* Nothing more is submitted. Slices that were submitted still arrive. */
void nvs_mover_stop(struct nvs_gpu *gpu);
/* Continues the move; returns when to call again. *has_ended is true if a move has ended: *moved says what it moved. */
int64_t nvs_mover_tick(struct nvs_gpu *gpu, int64_t now_ns, struct nvs_moved *moved, bool *has_ended);
/* Whether the process moves memory on this GPU, or why not: enum nvs_mover_state. */
uint8_t nvs_mover_state(const struct nvs_gpu *gpu);
void nvs_mover_forked(void);

/* For mover/hold.c: the driver's call, and whether the slice is still part of an allocation. */
CUresult nvs_mover_prefetch(const struct nvs_slice *slice, bool to_host, CUdevice gpu, CUstream stream);
bool nvs_mover_has(const struct nvs_slice *slice);

#endif
