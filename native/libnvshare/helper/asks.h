/* Questions about budget that threads wait for. */
#ifndef NVS_ASKS_H
#define NVS_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct nvs_gpu;

/* Asks for a budget of `need` bytes in all; false if there is no answer. `until_ns` is 0 at the first question of a call, which sets it:
 * all questions of the call together wait until then. */
bool nvs_asks_budget(struct nvs_gpu *gpu, uint64_t need, int64_t *until_ns, uint64_t *granted);
/* Asks what the group's other processes use now, if there are any. */
void nvs_asks_refresh(struct nvs_gpu *gpu);

/* The helper's side. */
/* Sends what has not been sent, or refuses it if no scheduler is expected. */
void nvs_asks_tick(void);
/* A question is answered. */
void nvs_asks_answer(uint32_t id, uint64_t granted);
/* The connection is gone. A question about budget is asked again of the next scheduler. */
void nvs_asks_lost(void);
void nvs_asks_forked(void);

#endif
