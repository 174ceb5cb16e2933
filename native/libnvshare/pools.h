/* Stream-ordered allocation: a pool is charged what it reserves of the card. */
#ifndef NVS_POOLS_H
#define NVS_POOLS_H

#include <stdbool.h>

#include "symbols.h"

/* An address from a pool is freed by `free_it`; its pool is looked at. */
struct nvs_free {
    CUresult (*ordered)(CUdeviceptr, CUstream); /* or NULL: */
    CUresult (*plain)(CUdeviceptr);
    CUstream stream;
};
CUresult nvs_pool_free(CUdeviceptr address, struct nvs_free free_it);
/* Reads again what every pool reserves: memory goes back to the card at synchronisations, unseen. Does nothing if
 * another thread is at it. */
void nvs_pools_refresh(void);
/* True if some pool reserves more than is live in it. */
bool nvs_pools_have_slack(void);
void nvs_pools_forked(void);

#endif
