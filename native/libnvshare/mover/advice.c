#include "mover/advice.h"

#include <stdatomic.h>

#include "memory/entries.h"
#include "memory/memory.h"
#include "mover/evidence.h"
#include "mover/plan.h"

enum { MOST_BLOCKS = 1 << 16 };

/* Set before the ledger is read. Pairs with convert in hooks/memory.c, which notes what it allocated and then reads this: at least one side
 * sees the other's, because both have taken the lock of the entry in between. */
static _Atomic bool has_peers;

CUresult nvs_advice_give(uint64_t address, uint64_t bytes, CUmem_advise advice, CUdevice place)
{
    CUresult result = nvs_real.cuMemAdvise(address, bytes, advice, place);
    if (result != CUDA_ERROR_NOT_FOUND)
        return result;
    bool is_host = place == CU_DEVICE_CPU;
    CUmemLocation location = {.type = is_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, .id = is_host ? 0 : place};
    return nvs_real.cuMemAdvise_v2(address, bytes, advice, location);
}

bool nvs_advice_is_wanted(void) { return atomic_load(&has_peers); }

bool nvs_advice_allocated(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes)
{
    if (!nvs_advice_is_wanted())
        return false;
    nvs_advice_give(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu->index);
    return true;
}

/* Not what the program manages or advises itself, nor what is held on the host. */
static bool is_to_be_advised(const struct nvs_block *block)
{
    struct nvs_ledger_entry entry;
    return nvs_entries_find_address(block->base, &entry) && entry.is_converted
        && !nvs_plan_look(&nvs_evidence, block).is_left_alone && !nvs_plan_held(&nvs_evidence, block, 1);
}

/* A block that is freed meanwhile is refused by the driver. */
static void advise_existing(const struct nvs_gpu *gpu)
{
    struct nvs_block *blocks = nvs_pages(MOST_BLOCKS * sizeof *blocks);
    size_t count = blocks ? nvs_entries_blocks(gpu, blocks, MOST_BLOCKS) : 0;
    for (size_t i = 0; i < count; i++)
        if (is_to_be_advised(&blocks[i]))
            nvs_advice_allocated(gpu, blocks[i].base, blocks[i].bytes);
    if (blocks)
        nvs_pages_free(blocks, MOST_BLOCKS * sizeof *blocks);
}

void nvs_advice_peers(void)
{
    if (atomic_exchange(&has_peers, true))
        return;
    for (int i = 0; i < nvs_gpu_count; i++)
        advise_existing(&nvs_gpus[i]);
}

void nvs_advice_forked(void) { atomic_store(&has_peers, false); }
