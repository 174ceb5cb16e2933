/* Memory that is held on the host: the process's limit was lowered below its use (docs/decisions/0015-live-shrink.md).
 *
 * What was used least recently is moved to the host and advised to stay there; the GPU accesses it over the link. Memory that was
 * never used only gets the advice: it will be there when it is used. The mover leaves held memory where it is. All of it runs in the helper thread
 * and waits for nothing, as mover/mover.h describes. */
#ifndef NVS_HOLD_H
#define NVS_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* Hold so many bytes from now on. While prefetches have no effect (mover/effect.h), no more is held than before; less always is. */
void nvs_hold_want(struct nvs_gpu *gpu, uint64_t bytes);
/* Goes on; when to call again. `is_open`: the process may use the GPU, so that memory that need not be held is brought back at once. True in
 * *is_done if it has ended: *held says how much is held. */
int64_t nvs_hold_tick(struct nvs_gpu *gpu, int64_t now_ns, bool is_open, uint64_t *held, bool *is_done);
void nvs_hold_forked(void);

#endif
