/* Stream-ordered allocation: a pool is charged what it reserves of the card. */
#ifndef NVS_POOLS_H
#define NVS_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lookup/symbols.h"

struct nvs_gpu;

/* Before and after an allocation of `bytes` from the pool. The first may wait for the scheduler, and counts the bytes, so that two
 * threads do not both count on the same unused part of a pool. If *result is CUDA_SUCCESS, the caller makes the driver's call; otherwise
 * it is what the program gets. The second follows, with the driver's result, if the first returned true. */
bool nvs_pools_begin_allocation(CUmemoryPool handle, struct nvs_gpu *gpu, uint64_t bytes, CUresult *result);
void nvs_pools_end_allocation(CUmemoryPool handle, CUresult result, CUdeviceptr address, uint64_t bytes);
/* `bytes` that came from the pool were freed. */
void nvs_pools_freed(CUmemoryPool handle, uint64_t bytes);

/* The pool is on this GPU, or on the host if `gpu` is NULL. A pool that is not known is taken to be on the current GPU. */
struct nvs_pool_form {
    bool swappable;
    bool is_converted; /* the program takes its memory for device memory */
};
void nvs_pools_known(CUmemoryPool handle, struct nvs_gpu *gpu, struct nvs_pool_form form);
/* Destroys the pool. */
CUresult nvs_pools_destroy(CUmemoryPool handle);

/* Reads again what every pool reserves: the driver returns memory to the card at synchronisations, without a call that we see. */
void nvs_pools_refresh(void);
/* False if nvs_pools_refresh has nothing to ask. */
bool nvs_pools_exist(void);
/* True if some pool reserves more than is live in it. */
bool nvs_pools_have_slack(void);
void nvs_pools_forked(void);

#endif
