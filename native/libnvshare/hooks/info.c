/* What the program is told about memory: total = min(limit, card), free = what may still be allocated. */
#include "gate/frees.h"
#include "helper/asks.h"
#include "helper/joining.h"
#include "hooks/hooks.h"
#include "memory/memory.h"
#include "memory/pools.h"

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    NVS_BEGIN_HOOK(cuMemGetInfo_v2(free_bytes, total_bytes));
    size_t real_free = 0, real_total = 0;
    CUresult result = nvs_real.cuMemGetInfo_v2(&real_free, &real_total);
    struct nvs_gpu *gpu = result == CUDA_SUCCESS ? nvs_gpu_current() : NULL;
    if (!gpu || !free_bytes || !total_bytes)
        return result != CUDA_SUCCESS ? result : nvs_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    nvs_joining_wait_known();
    nvs_frees_do();
    nvs_pools_refresh();
    nvs_asks_refresh(gpu);
    nvs_lock_take(&gpu->account_lock);
    nvs_memory_count_contexts(gpu);
    *total_bytes = nvs_account_total(&gpu->account);
    *free_bytes = nvs_account_free(&gpu->account);
    nvs_lock_give(&gpu->account_lock);
    if (nvs_memory_stays_native(gpu) && *free_bytes > real_free)
        *free_bytes = real_free; /* native memory must be free on the card */
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    NVS_BEGIN_HOOK(cuDeviceTotalMem_v2(bytes, dev));
    CUresult result = nvs_real.cuDeviceTotalMem_v2(bytes, dev);
    if (result != CUDA_SUCCESS || dev < 0 || dev >= nvs_gpu_count)
        return result;
    nvs_joining_wait_known();
    nvs_lock_take(&nvs_gpus[dev].account_lock);
    *bytes = nvs_account_total(&nvs_gpus[dev].account);
    nvs_lock_give(&nvs_gpus[dev].account_lock);
    return result;
}
