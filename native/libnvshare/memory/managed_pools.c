#include "memory/managed_pools.h"

#include <stdatomic.h>
#include <string.h>

#include "gpu.h"
#include "memory/memory.h"
#include "memory/pools.h"

enum { MANAGED_POOLS_SINCE = 13000 };
#define LOOK_NS 20000

/* By GPU. `managed` is NULL where the default pool is not replaced. Both are written before `state` is DECIDED, by one thread. */
enum { UNDECIDED, BEING_DECIDED, DECIDED };
static struct stand_in {
    _Atomic int state;
    CUmemoryPool of_default, managed;
} stand_ins[NVS_MAX_GPUS];

/* Attributes that the program has set on the default pool apply to its replacement too: the flags of reuse, which are of type int, and
 * the release threshold. */
static void copy_attributes(CUmemoryPool from, CUmemoryPool to)
{
    for (int attribute = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES; attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD; attribute++) {
        union { int is_on; uint64_t bytes; } value = {.bytes = 0};
        if (nvs_real.cuMemPoolGetAttribute(from, attribute, &value) == CUDA_SUCCESS)
            nvs_real.cuMemPoolSetAttribute(to, attribute, &value);
    }
}

static void make(struct nvs_gpu *gpu, struct stand_in *made)
{
    int version = 0;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = gpu->index}};
    CUmemoryPool managed = NULL;
    if (nvs_real.cuDriverGetVersion(&version) != CUDA_SUCCESS || version < MANAGED_POOLS_SINCE
        || nvs_real.cuDeviceGetDefaultMemPool(&made->of_default, gpu->index) != CUDA_SUCCESS
        || nvs_real.cuMemPoolCreate(&managed, &props) != CUDA_SUCCESS)
        return;
    copy_attributes(made->of_default, managed);
    nvs_pools_known(managed, gpu, (struct nvs_pool_form){.swappable = true, .is_converted = true});
    made->managed = managed;
}

static void decide(struct nvs_gpu *gpu, struct stand_in *stand_in)
{
    int undecided = UNDECIDED;
    if (atomic_compare_exchange_strong(&stand_in->state, &undecided, BEING_DECIDED)) {
        make(gpu, stand_in);
        atomic_store(&stand_in->state, DECIDED); /* release: pairs with the loads below */
    }
    while (atomic_load(&stand_in->state) != DECIDED)
        nvs_sleep_ns(LOOK_NS);
}

CUmemoryPool nvs_managed_pool(CUmemoryPool pool)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (atomic_load(&stand_ins[i].state) == DECIDED && stand_ins[i].managed && stand_ins[i].of_default == pool)
            return stand_ins[i].managed;
    return pool;
}

CUmemoryPool nvs_managed_pool_seen(CUmemoryPool pool)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (atomic_load(&stand_ins[i].state) == DECIDED && pool && stand_ins[i].managed == pool)
            return stand_ins[i].of_default;
    return pool;
}

CUmemoryPool nvs_managed_pool_to_allocate(struct nvs_gpu *gpu, CUmemoryPool pool)
{
    if (nvs_memory_stays_native(gpu))
        return pool;
    decide(gpu, &stand_ins[gpu->index]);
    return nvs_managed_pool(pool);
}

void nvs_managed_pools_forked(void)
{
    memset((void *)stand_ins, 0, sizeof stand_ins); /* the parent's pools */
}
