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

/* What is held is advised when it is let go. The fence is as in nvs_advice_peers, whose store of has_peers this thread has read. */
void nvs_advice_noted(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes)
{
    struct nvs_block block = {.base = address, .bytes = bytes};
    if (!nvs_advice_is_wanted())
        return;
    atomic_thread_fence(memory_order_seq_cst);
    if (is_to_be_advised(&block))
        nvs_advice_allocated(gpu, address, bytes);
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

/* has_peers is read after the old advice is taken back and after the mark is cleared. Pairs with nvs_advice_peers, which sets it and then
 * reads the mark: at least one side sees the other's, and gives its advice last. Otherwise memory that is let go while the program enables
 * peer access would be skipped there as held, and keep no advice here. The fences are there because the mark is relaxed. */
CUresult nvs_advice_not_held(const struct nvs_gpu *gpu, uint64_t address, uint64_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    if (!nvs_advice_is_wanted())
        result = nvs_advice_give(address, bytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_DEVICE_CPU);
    atomic_thread_fence(memory_order_seq_cst);
    if (nvs_advice_is_wanted())
        result = nvs_advice_give(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu->index);
    return result;
}

void nvs_advice_peers(void)
{
    if (atomic_exchange(&has_peers, true))
        return;
    atomic_thread_fence(memory_order_seq_cst); /* pairs with nvs_advice_not_held */
    for (int i = 0; i < nvs_gpu_count; i++)
        advise_existing(&nvs_gpus[i]);
}

void nvs_advice_forked(void) { atomic_store(&has_peers, false); }
