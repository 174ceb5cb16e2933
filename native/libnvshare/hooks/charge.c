#include "hooks/charge.h"
#include "memory/entries.h"

CUresult nvs_charge_end(CUresult result, struct nvs_gpu *gpu, enum nvs_kind kind, const void *handle, uint64_t bytes)
{
    CUcontext context = NULL;
    nvs_real.cuCtxGetCurrent(&context);
    if (result != CUDA_SUCCESS)
        nvs_memory_return(gpu, bytes, false);
    else
        nvs_entries_note(&(struct nvs_ledger_entry){.key = (uintptr_t)handle, .bytes = bytes, .owner = (uintptr_t)context,
                                            .gpu = (uint16_t)gpu->index, .kind = (uint8_t)kind});
    return result;
}

CUresult nvs_charge_return(CUresult result, bool is_ours, const struct nvs_ledger_entry *entry)
{
    if (is_ours && result == CUDA_SUCCESS)
        nvs_memory_return_entry(entry);
    else if (is_ours)
        nvs_entries_note(entry);
    return result;
}
