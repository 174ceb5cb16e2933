/* What the program is told about memory: total = min(limit, card), free = what may still be allocated. */
#include "hooks.h"
#include "options.h"
#include "pools.h"
#include "session.h"

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    NVS_PASS_UNLESS_READY(cuMemGetInfo_v2(free_bytes, total_bytes));
    size_t real_free = 0, real_total = 0;
    CUresult result = nvs_real.cuMemGetInfo_v2(&real_free, &real_total);
    struct nvs_gpu *gpu = result == CUDA_SUCCESS ? nvs_current_gpu() : NULL;
    if (!gpu || !free_bytes || !total_bytes)
        return result != CUDA_SUCCESS ? result : nvs_real.cuMemGetInfo_v2(free_bytes, total_bytes);
    nvs_session_wait_joined();
    nvs_pools_refresh();
    nvs_session_refresh(gpu);
    nvs_lock_take(&gpu->account_lock);
    *total_bytes = nvs_account_total(&gpu->account);
    *free_bytes = nvs_account_free(&gpu->account);
    nvs_lock_give(&gpu->account_lock);
    if ((nvs_options()->native_memory || !gpu->can_be_managed) && *free_bytes > real_free)
        *free_bytes = real_free; /* native memory really has to be there */
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    NVS_PASS_UNLESS_READY(cuDeviceTotalMem_v2(bytes, dev));
    CUresult result = nvs_real.cuDeviceTotalMem_v2(bytes, dev);
    if (result != CUDA_SUCCESS || dev < 0 || dev >= nvs_gpu_count)
        return result;
    nvs_session_wait_joined();
    nvs_lock_take(&nvs_gpus[dev].account_lock);
    *bytes = nvs_account_total(&nvs_gpus[dev].account);
    nvs_lock_give(&nvs_gpus[dev].account_lock);
    return result;
}
