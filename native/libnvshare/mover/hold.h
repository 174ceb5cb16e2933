/* Memory that is held on the host: the process's limit was lowered below its use (docs/decisions/0015-live-shrink.md).
 *
 * The least recently used memory is moved to the host and gets advice to stay there; the GPU accesses it over the link. Memory
 * that was never used only gets the advice: it will be on the host when it is used. The mover does not move held memory. All of
 * this runs in the helper thread and never waits, as mover/mover.h describes. */
#ifndef NVS_HOLD_H
#define NVS_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* Hold `bytes` from now on. While prefetches have no effect (mover/prefetch_effect.h), the held memory can shrink but not grow. */
void nvs_hold_want(struct nvs_gpu *gpu, uint64_t bytes);
/* Continues; returns when to call again. `is_open`: the process may use the GPU, so memory that is no longer held is moved back
 * at once. *is_done is true if it has ended: *held says how much is held. */
int64_t nvs_hold_tick(struct nvs_gpu *gpu, int64_t now_ns, bool is_open, uint64_t *held, bool *is_done);
void nvs_hold_forked(void);

#endif
