/* Pools; shared by pool.c and pool_api.c. */
#ifndef SIM_POOL_H
#define SIM_POOL_H

#include "driver/driver.h"

struct CUmemPoolHandle_st {
    uint32_t kind;
    unsigned card;
    CUcontext context;
    bool is_default, dying;
    bool host; /* takes nothing of the card */
    bool managed; /* what it allocates is managed memory */
    uint64_t threshold, reserved, reserved_high, used, used_high;
    int reuse[4];
    CUmemPoolProps properties;
    struct sim_allocation **kept;
    size_t count, room;
    CUmemoryPool next;
};

CUmemoryPool sim_pool_make(CUcontext context);
CUresult sim_pool_default(CUdevice device, CUmemoryPool *pool);
/* The default pool of managed memory. */
CUresult sim_pool_managed(CUdevice device, CUmemoryPool *pool);
CUresult sim_pool_current(CUdevice device, CUmemoryPool *pool);
CUresult sim_pool_check(CUmemoryPool pool);

#endif
