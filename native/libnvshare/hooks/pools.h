/* What hooks/memory.c needs of hooks/pools.c: cuMemFree may be given an address from a pool. */
#ifndef NVS_HOOKS_POOLS_H
#define NVS_HOOKS_POOLS_H

#include "lookup/symbols.h"

/* The driver's function that frees the address. */
struct nvs_free {
    CUresult (*ordered)(CUdeviceptr, CUstream); /* or NULL: */
    CUresult (*plain)(CUdeviceptr);
    CUstream stream;
};
/* Frees an address that is not in the ledger as plain memory; if it came from a pool, the pool's charge is corrected. */
CUresult nvs_hook_pool_free(CUdeviceptr address, struct nvs_free free_it);

#endif
