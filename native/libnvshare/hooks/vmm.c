/* Virtual memory management. Programs release the handle right after mapping it, and the driver may use the same number for a new
 * handle while the memory is still mapped. So handles and mappings refer to a block of ours, and the block is charged. It is
 * returned when its last handle and mapping are gone. */
#include <stdatomic.h>

#include "hooks/hooks.h"
#include "memory/entries.h"
#include "memory/memory.h"

static _Atomic uint64_t last_block; /* a counter; orders nothing */

static void block_release(uint64_t block)
{
    struct nvs_ledger_entry entry;
    if (nvs_entries_count(NVS_KIND_BLOCK, block, -1, &entry) == 0)
        nvs_memory_return_entry(&entry);
}

static void block_retain(uint64_t block)
{
    struct nvs_ledger_entry entry;
    nvs_entries_count(NVS_KIND_BLOCK, block, 1, &entry);
}

static struct nvs_gpu *gpu_of(const CUmemAllocationProp *prop)
{
    if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id < 0 || prop->location.id >= nvs_gpu_count)
        return NULL; /* on the host, or invalid: the driver reports it */
    return &nvs_gpus[prop->location.id];
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *prop, unsigned long long flags)
{
    NVS_BEGIN_HOOK(cuMemCreate(h, n, prop, flags));
    struct nvs_gpu *gpu = gpu_of(prop);
    if (!gpu)
        return nvs_real.cuMemCreate(h, n, prop, flags);
    bool swappable = prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED;
    CUresult result = nvs_memory_reserve(gpu, n, swappable);
    if (result != CUDA_SUCCESS)
        return result;
    result = nvs_real.cuMemCreate(h, n, prop, flags);
    if (result != CUDA_SUCCESS) {
        nvs_memory_return(gpu, n, swappable);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && !swappable)
            nvs_memory_say_fixed();
        return result;
    }
    uint64_t block = atomic_fetch_add(&last_block, 1) + 1;
    nvs_entries_note(&(struct nvs_ledger_entry){
        .key = block, .bytes = n, .gpu = (uint16_t)gpu->index, .kind = NVS_KIND_BLOCK, .swappable = swappable, .count = 1});
    nvs_entries_note(&(struct nvs_ledger_entry){.key = *h, .owner = block, .kind = NVS_KIND_HANDLE, .count = 1});
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    NVS_BEGIN_HOOK(cuMemRelease(h));
    struct nvs_ledger_entry entry;
    int left = nvs_entries_count(NVS_KIND_HANDLE, h, -1, &entry);
    CUresult result = nvs_real.cuMemRelease(h);
    if (left < 0)
        return result; /* imported, or the host's */
    if (result == CUDA_SUCCESS) {
        block_release(entry.owner);
    } else if (left > 0) {
        nvs_entries_count(NVS_KIND_HANDLE, h, 1, &entry);
    } else {
        entry.count = 1;
        nvs_entries_note(&entry);
    }
    return result;
}

CUresult cuMemMap(CUdeviceptr d, size_t n, size_t off, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    NVS_BEGIN_HOOK(cuMemMap(d, n, off, h, flags));
    struct nvs_ledger_entry handle;
    CUresult result = nvs_real.cuMemMap(d, n, off, h, flags);
    if (result == CUDA_SUCCESS && nvs_entries_find(NVS_KIND_HANDLE, h, &handle)) {
        block_retain(handle.owner);
        nvs_entries_note(&(struct nvs_ledger_entry){.key = d, .bytes = n, .owner = handle.owner, .kind = NVS_KIND_MAPPING});
    }
    return result;
}

/* The smallest step between two mappings. */
static uint64_t step_at(CUdeviceptr d) { return d % (2 << 20) ? 64 << 10 : 2 << 20; }

CUresult cuMemUnmap(CUdeviceptr d, size_t n)
{
    NVS_BEGIN_HOOK(cuMemUnmap(d, n));
    CUresult result = nvs_real.cuMemUnmap(d, n);
    for (CUdeviceptr at = d; result == CUDA_SUCCESS && at - d < n;) {
        struct nvs_ledger_entry mapping;
        bool found = nvs_entries_take(NVS_KIND_MAPPING, at, &mapping);
        if (found)
            block_release(mapping.owner);
        at += found && mapping.bytes ? mapping.bytes : step_at(at);
    }
    return result;
}

static bool mapping_at(CUdeviceptr address, struct nvs_ledger_entry *mapping)
{
    enum { MAX_STEPS = 8192 };
    CUdeviceptr at = address & ~(CUdeviceptr)((64 << 10) - 1);
    for (int i = 0; i < MAX_STEPS && at; i++, at -= 64 << 10)
        if (nvs_entries_find(NVS_KIND_MAPPING, at, mapping))
            return address - at < mapping->bytes;
    return false;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *addr)
{
    NVS_BEGIN_HOOK(cuMemRetainAllocationHandle(h, addr));
    struct nvs_ledger_entry entry;
    CUresult result = nvs_real.cuMemRetainAllocationHandle(h, addr);
    if (result != CUDA_SUCCESS)
        return result;
    if (nvs_entries_count(NVS_KIND_HANDLE, *h, 1, &entry) > 0) {
        block_retain(entry.owner);
    } else if (mapping_at((CUdeviceptr)(uintptr_t)addr, &entry)) {
        block_retain(entry.owner);
        nvs_entries_note(&(struct nvs_ledger_entry){.key = *h, .owner = entry.owner, .kind = NVS_KIND_HANDLE, .count = 1});
    }
    return result;
}
