/* What the helper thread does for each GPU. All of it runs in that thread. */
#ifndef NVS_TURNS_H
#define NVS_TURNS_H

#include <stdint.h>

#include "process.h"

#define NVS_NEVER INT64_MAX

/* Does what a transition of the GPU's turn asks for. */
void nvs_turns_apply(struct nvs_gpu *gpu, unsigned todo);
/* Looks after one GPU; returns when to look again. */
int64_t nvs_turns_tick(struct nvs_gpu *gpu, int64_t now_ns);
/* Somebody waits, or nobody does any more. */
void nvs_turns_contended(struct nvs_gpu *gpu, bool contended);
void nvs_turns_send_budget_return(struct nvs_gpu *gpu, uint32_t serial);

#endif
