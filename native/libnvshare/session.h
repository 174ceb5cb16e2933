/* The conversation with the scheduler, as the rest of the library sees it. */
#ifndef NVS_SESSION_H
#define NVS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct nvs_gpu;

/* Starts the helper thread. 0 or an errno. */
int nvs_session_start(void);
/* Ends it, waiting a little: the program exits and the driver is about to go. */
void nvs_session_stop(void);
void nvs_session_forked(void);

/* Something wants the helper's attention. From any thread. */
void nvs_session_wake(void);
/* Waits, at most for the joining time, until the scheduler has answered our registration or is known to be away. */
void nvs_session_wait_joined(void);
/* True while the scheduler is there and knows us. */
bool nvs_session_is_connected(void);
/* True while work should be kept short because others may want the GPU. */
bool nvs_session_paces(void);

/* Asks for a budget of `need` bytes in all; false if nobody answers. */
bool nvs_session_ask(struct nvs_gpu *gpu, uint64_t need, uint64_t *granted);
/* Asks what the group's other processes use now, if there are any. */
void nvs_session_refresh(struct nvs_gpu *gpu);

/* Memory or contexts on the GPU have changed. */
void nvs_memory_changed(struct nvs_gpu *gpu);
/* The change is too big to wait; true if the helper has to be woken for it. */
bool nvs_session_hurry(struct nvs_gpu *gpu);

#endif
