/* Memory mode checkpoint (decision 32): at the end of a turn the process leaves the card, before the next it comes back. The driver is called
 * in a thread of its own (suspend/journey.h). All functions are for the helper, unless stated otherwise. */
#ifndef NVS_SUSPENSION_H
#define NVS_SUSPENSION_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* Whether the mode is asked for and possible here: a driver that has checkpoints, one GPU. Says once why not. Before the helper starts. */
void nvs_suspension_setup(void);
/* The mode is asked for, and the process sees one GPU. If it proves impossible, the process stays on the card. */
bool nvs_suspension_is_asked_for(void);
/* True as long as this process is to leave the card between its turns. For any thread. */
bool nvs_suspension_is_used(void);
/* The process cannot be suspended from now on, because of what it does: its memory stays native. For any thread. */
void nvs_suspension_unfit(const char *what);
#define NVS_UNFIT_MEMORY "memory that is managed or shared with other processes"
/* What the memory of the process is: enum nvs_memory_kind of wire.h. */
uint8_t nvs_suspension_mode(void);

/* The turn has ended and its work has drained. True once nothing of the process is on the card, or it has to stay there. */
bool nvs_suspension_left(struct nvs_gpu *gpu);
/* A turn begins: the gate opens when the process is back. Only if nvs_suspension_is_asked_for. */
void nvs_suspension_open(struct nvs_gpu *gpu);
/* The turn has ended. */
void nvs_suspension_close(void);
/* Continues what was begun; returns when to call again. */
int64_t nvs_suspension_tick(struct nvs_gpu *gpu, int64_t now_ns);
/* True while the helper may call the driver: the process is on the card. */
bool nvs_suspension_is_on_card(void);
/* Called by the thread that exits the program: from now on the process is not suspended or brought back. Waits until a checkpoint or
 * restore in progress has ended. */
void nvs_suspension_exits(void);
/* Called after nvs_suspension_exits: a suspended process stays suspended. */
void nvs_suspension_ends(void);
void nvs_suspension_forked(void);

#endif
