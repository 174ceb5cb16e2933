/* Managed pools of the library that replace the default pools of the GPUs, so that memory from cuMemAllocAsync can be evicted. If
 * the driver has no managed pools (before CUDA 13), or memory is to stay native, the default pools are not replaced. */
#ifndef NVS_MANAGED_POOLS_H
#define NVS_MANAGED_POOLS_H

#include "lookup/symbols.h"

struct nvs_gpu;

/* The pool to use in place of `pool`: if that is a default pool, the managed pool that replaces it, else itself. */
CUmemoryPool nvs_managed_pool(CUmemoryPool pool);
/* The same for an allocation in a context of this GPU: makes the GPU's managed pool at the first one. */
CUmemoryPool nvs_managed_pool_to_allocate(struct nvs_gpu *gpu, CUmemoryPool pool);
/* The reverse: the pool that the program sees in place of `pool`. */
CUmemoryPool nvs_managed_pool_seen(CUmemoryPool pool);
void nvs_managed_pools_forked(void);

#endif
