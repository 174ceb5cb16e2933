/* What the scheduler is told about the memory and the work of the process, if it is news to it. Each call adds frames to `out`. */
#ifndef NVS_TELL_H
#define NVS_TELL_H

#include "client/client.h"

/* `bytes` were moved. */
uint32_t nvs_tell_moved(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, int64_t took_ns);
/* A requested move has ended, also if nothing was moved. To the host: at most `left` bytes of the process's swappable memory are still on
 * the card; sent if it has no lock. */
uint32_t nvs_tell_move_ended(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, uint64_t left, int64_t took_ns);
/* How much of its memory the process has used recently. Sent if it is new to the scheduler. */
uint32_t nvs_tell_working_set(struct nvs_client *client, int gpu, bool is_known, uint64_t bytes);
/* Whether the process moves its memory in bulk, or why not (enum nvs_mover_state). Sent if it is new to the scheduler. */
uint32_t nvs_tell_mover(struct nvs_client *client, int gpu, uint8_t state);
/* Its work takes `factor` times longer than usual. Sent at most once per second, while it holds the lock. */
uint32_t nvs_tell_slowed(struct nvs_client *client, int64_t now_ns, int gpu, uint32_t factor);
/* At which looks work was unfinished. Sent if the scheduler knows the message. */
uint32_t nvs_tell_gpu_time(struct nvs_client *client, int gpu, const struct nvs_look_report *report);
/* True if it does: looking is worth while. */
bool nvs_tell_gpu_time_is_wanted(const struct nvs_client *client);
/* `bytes` are held on the host. */
uint32_t nvs_tell_held(struct nvs_client *client, int gpu, uint64_t bytes);
/* What the memory of the process is (enum nvs_memory_kind). Told if it is new to the scheduler. */
uint32_t nvs_tell_memory_mode(struct nvs_client *client, uint8_t mode);

#endif
