/* The drains of the process: each waits until all work on its GPU has finished, and they end together. */
#ifndef NVS_DRAINS_H
#define NVS_DRAINS_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* The GPU's gate was closed, and its lock is to be released when all work has finished. */
void nvs_drains_begin(struct nvs_gpu *gpu, int64_t now_ns);
/* The lock is not to be released any more, or the gate will open. */
void nvs_drains_stop(struct nvs_gpu *gpu);
/* The scheduler wants one submission let through: another process waits for it. */
void nvs_drains_let_one(struct nvs_gpu *gpu, int64_t now_ns);
/* Looks after all of them; returns when to look again. */
int64_t nvs_drains_tick(int64_t now_ns);
/* One step of finding out whether all work on the GPU has finished; true if it has. Does not wait for the GPU; a driver call may wait for the driver's lock. */
bool nvs_drains_advance(struct nvs_gpu *gpu);

/* The program exits: no call to the driver from here on. */
void nvs_drains_leave_driver(void);
void nvs_drains_forked(void);

#endif
