/* Questions about budget that threads wait for. */
#ifndef NVS_ASKS_H
#define NVS_ASKS_H

#include <stdbool.h>
#include <stdint.h>

struct nvs_gpu;

/* Asks for a budget of `need` bytes in all; false if there is no answer. `waited_ns` is 0 at the first question of a call: all
 * questions of the call together wait for `ask_ms`, not counting time in which the process is stopped, and each at most 1 s more if the
 * helper cannot run. */
bool nvs_asks_budget(struct nvs_gpu *gpu, uint64_t need, int64_t *waited_ns, uint64_t *granted);
/* Asks what the group's other processes use now, if there are any. */
void nvs_asks_refresh(struct nvs_gpu *gpu);

/* The helper's side. */
/* Sends what has not been sent, or refuses it if no scheduler is expected. */
void nvs_asks_tick(void);
/* Refuses the questions whose threads had waited long enough at `read_ns`: all messages that had come by then have been dealt with. */
void nvs_asks_refuse_overdue(int64_t read_ns);
/* A question is answered. */
void nvs_asks_answer(uint32_t id, uint64_t granted);
/* The connection is gone. A question about budget is asked again of the next scheduler. */
void nvs_asks_lost(void);
void nvs_asks_forked(void);

#endif
