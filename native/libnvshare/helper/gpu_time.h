/* How long the process keeps a GPU busy: looks at its streams, and tells the scheduler. */
#ifndef NVS_GPU_TIME_H
#define NVS_GPU_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* Looks if a look is due; returns when the next one is. */
int64_t nvs_gpu_time_tick(struct nvs_gpu *gpu, int64_t now_ns);
/* True while it is to be found out whether nothing is submitted, and then until something is: the gate is watched for it. */
bool nvs_gpu_time_wants_watch(const struct nvs_gpu *gpu);
/* The program exits: no call to the driver from here on. */
void nvs_gpu_time_leave_driver(void);
void nvs_gpu_time_forked(void);

#endif
