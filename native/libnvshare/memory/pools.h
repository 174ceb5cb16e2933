/* Stream-ordered allocation: a pool is charged what it reserves of the card. */
#ifndef NVS_POOLS_H
#define NVS_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "lookup/symbols.h"

struct nvs_gpu;
struct nvs_pool;

/* Before and after an allocation of `bytes` from the pool. Between the two the pools' lock is held: two threads must not both count
 * on the same unused part of a pool. The first may wait for the scheduler, without the lock. If it leaves CUDA_SUCCESS in *result,
 * the caller makes the driver's call; otherwise *result is what the program gets. In both cases nvs_pools_end_allocation must
 * follow, with the result: it releases the lock. */
struct nvs_pool *nvs_pools_begin_allocation(CUmemoryPool handle, struct nvs_gpu *gpu, uint64_t bytes, CUresult *result);
void nvs_pools_end_allocation(struct nvs_pool *pool, CUresult result, CUdeviceptr address, uint64_t bytes);
/* `bytes` that came from the pool were freed. */
void nvs_pools_freed(CUmemoryPool handle, uint64_t bytes);

/* The pool is on this GPU, or on the host if `gpu` is NULL. A pool that is not known is taken to be on the current GPU. */
void nvs_pools_known(CUmemoryPool handle, struct nvs_gpu *gpu, bool swappable);
/* Destroys the pool. */
CUresult nvs_pools_destroy(CUmemoryPool handle);

/* Reads again what every pool reserves: the driver returns memory to the card at synchronisations, without a call that we see. */
void nvs_pools_refresh(void);
/* The same for the helper, which never waits: it does nothing while a thread is in a driver's call that allocates from a pool. */
void nvs_pools_try_refresh(void);
/* True if some pool reserves more than is live in it, or if that cannot be told now. */
bool nvs_pools_have_slack(void);
void nvs_pools_forked(void);

#endif
