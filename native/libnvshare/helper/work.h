/* The helper's work at each GPU: opens and closes its gate, watches whether it is idle, and moves memory. */
#ifndef NVS_WORK_H
#define NVS_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/effects.h"
#include "gpu.h"

/* Performs an effect of the client machine at the GPU. */
void nvs_work_perform(struct nvs_gpu *gpu, enum nvs_effect_kind kind);
/* For the deputy: closes the gates that nvs_work_perform will close, and wakes the helper if it has something to do. */
void nvs_work_close_gates(void);
/* The program exits: no call to the driver from here on. */
void nvs_work_leave_driver(void);
void nvs_work_forked(void);
/* Watches whether a GPU is idle, and looks at what is used of its memory; returns when to look again. */
int64_t nvs_work_tick(struct nvs_gpu *gpu, int64_t now_ns);
/* Goes on with a move of memory, and with holding memory on the host; returns when to look again. */
int64_t nvs_work_move(struct nvs_gpu *gpu, int64_t now_ns);
/* Asks the driver again how much the memory pools have. True if there was something to ask: the deputy may have read messages. */
bool nvs_work_refresh_pools(void);
/* The same at intervals, while a pool has more than is live in it; returns when to ask next. */
int64_t nvs_work_pools(int64_t now_ns);

#endif
