/* What a process may still get of a GPU, before it has initialised CUDA: there is no helper yet, and none may be started, because a
 * program that only reads NVML must not become a client. */
#ifndef NVS_LIMIT_QUERY_H
#define NVS_LIMIT_QUERY_H

#include <stdbool.h>
#include <stdint.h>

/* Asks the scheduler for the limit of the process's group and for what is left of it, on the GPU with this UUID, as NVML writes it.
 * False if there is no answer in a short time; `total` and `left` are then unchanged. `card`: its size. */
bool nvs_limit_query(const char *uuid, uint64_t card, unsigned long long *total, unsigned long long *left);

#endif
