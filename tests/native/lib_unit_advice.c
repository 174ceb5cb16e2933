/* Where the driver is told to keep converted memory, if another thread enables peer access at any point of the allocation
 * (hooks/memory.c, mover/advice.c). */
#include "hooks/memory.c"
#include "mover/advice.c"

#include "lib_check.h"

enum point { BEFORE_THE_DRIVER, BEFORE_THE_NOTE, AFTER_THE_NOTE, POINTS };

static struct nvs_block noted;
static enum point peers_at;
static unsigned advised; /* how often */
static bool is_held_then;

/* The other thread. */
static void arrive_at(enum point point)
{
    if (point == peers_at)
        nvs_advice_peers();
}

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count = 1;
struct nvs_usage nvs_evidence;

static CUresult allocate_managed(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    (void)bytes, (void)flags;
    arrive_at(BEFORE_THE_DRIVER);
    *address = NVS_CHUNK_BYTES;
    return CUDA_SUCCESS;
}

static CUresult note_advice(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice place)
{
    advised += address == NVS_CHUNK_BYTES && bytes == NVS_CHUNK_BYTES && advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && place == 0;
    return CUDA_SUCCESS;
}

struct nvs_real nvs_real = {.cuMemAllocManaged = allocate_managed, .cuMemAdvise = note_advice};

void nvs_entries_note(const struct nvs_ledger_entry *entry)
{
    arrive_at(BEFORE_THE_NOTE);
    noted = (struct nvs_block){.base = entry->key, .bytes = entry->bytes};
    arrive_at(AFTER_THE_NOTE);
    if (!is_held_then)
        return;
    nvs_usage_held(&nvs_evidence, noted.base, noted.bytes, true); /* the helper has told the driver so */
    advised = 0;
}

size_t nvs_entries_blocks(const struct nvs_gpu *gpu, struct nvs_block *blocks, size_t most)
{
    (void)gpu, (void)most;
    blocks[0] = noted;
    return noted.bytes ? 1 : 0;
}

bool nvs_entries_find(enum nvs_kind kind, uint64_t address, struct nvs_ledger_entry *found)
{
    *found = (struct nvs_ledger_entry){.key = address, .kind = kind, .is_converted = true};
    return true;
}

/* ---- an allocation that is converted; no other is made ---- */

bool nvs_process_ready(void) { return true; }
struct nvs_gpu *nvs_gpu_current_with_context(CUcontext *context)
{
    *context = NULL;
    return &nvs_gpus[0];
}
bool nvs_memory_stays_native(const struct nvs_gpu *gpu) { return gpu == NULL; }
CUresult nvs_memory_reserve_converted(struct nvs_gpu *gpu, uint64_t bytes, bool *is_small)
{
    *is_small = !gpu || !bytes;
    return CUDA_SUCCESS;
}
void nvs_frees_do(void) {}
CUresult nvs_memory_reserve(struct nvs_gpu *gpu, uint64_t bytes, bool swappable) { return gpu && bytes && swappable ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS; }
void nvs_memory_add(struct nvs_gpu *gpu, uint64_t bytes, bool swappable) { (void)gpu, (void)bytes, (void)swappable; }
void nvs_memory_return(struct nvs_gpu *gpu, uint64_t bytes, bool swappable) { (void)gpu, (void)bytes, (void)swappable; }
void nvs_memory_return_small(struct nvs_gpu *gpu, uint64_t bytes) { (void)gpu, (void)bytes; }
void nvs_memory_small_is_converted(struct nvs_gpu *gpu, uint64_t bytes) { (void)gpu, (void)bytes; }
void nvs_memory_return_entry(const struct nvs_ledger_entry *entry) { (void)entry; }
bool nvs_entries_take(enum nvs_kind kind, uint64_t key, struct nvs_ledger_entry *taken) { return kind == NVS_KIND_MEMORY && key && !taken; }
CUresult nvs_hook_pool_free(CUdeviceptr address, struct nvs_free how) { return address && how.plain ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS; }

/* ---- the tests ---- */

static void memory_is_advised_whenever_peer_access_is_enabled(void)
{
    for (peers_at = 0; peers_at < POINTS; peers_at++) {
        CUdeviceptr address;
        nvs_advice_forked();
        noted = (struct nvs_block){0};
        advised = 0;
        EQUAL(cuMemAlloc_v2(&address, NVS_CHUNK_BYTES), CUDA_SUCCESS);
        CHECK(advised > 0);
    }
}

static void memory_that_is_held_meanwhile_stays_held(void)
{
    CUdeviceptr address;
    nvs_advice_forked();
    nvs_usage_allocated(&nvs_evidence, NVS_CHUNK_BYTES, NVS_CHUNK_BYTES);
    peers_at = AFTER_THE_NOTE;
    is_held_then = true;
    EQUAL(cuMemAlloc_v2(&address, NVS_CHUNK_BYTES), CUDA_SUCCESS);
    EQUAL(advised, 0);
    is_held_then = false;
    peers_at = POINTS;
    nvs_usage_freed(&nvs_evidence, NVS_CHUNK_BYTES, NVS_CHUNK_BYTES);
}

static void without_peer_access_no_advice_is_given(void)
{
    CUdeviceptr address;
    nvs_advice_forked();
    advised = 0;
    EQUAL(cuMemAlloc_v2(&address, NVS_CHUNK_BYTES), CUDA_SUCCESS);
    EQUAL(advised, 0);
}

int main(void)
{
    CHECK(nvs_usage_setup(&nvs_evidence));
    memory_is_advised_whenever_peer_access_is_enabled();
    memory_that_is_held_meanwhile_stays_held();
    without_peer_access_no_advice_is_given();
    return DONE();
}
