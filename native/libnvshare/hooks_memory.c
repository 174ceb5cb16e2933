/* Device memory by address: cuMemAlloc and its like. Charged before the driver is asked, given back if it refuses. */
#include "hooks.h"
#include "memory.h"
#include "options.h"
#include "pools.h"

enum { PITCH_ALIGNMENT = 512 };

static void note(struct nvs_gpu *gpu, CUdeviceptr address, uint64_t bytes, bool swappable)
{
    CUcontext context = NULL;
    nvs_real.cuCtxGetCurrent(&context);
    nvs_memory_note(&(struct nvs_entry){.key = address, .bytes = bytes, .owner = (uintptr_t)context, .gpu = (uint16_t)gpu->index,
                                        .kind = NVS_KIND_MEMORY, .swappable = swappable});
}

static bool makes_managed(const struct nvs_gpu *gpu) { return gpu->can_be_managed && !nvs_options()->native_memory; }

static CUresult settle(CUresult result, struct nvs_gpu *gpu, CUdeviceptr *address, uint64_t bytes, bool swappable)
{
    if (result == CUDA_SUCCESS)
        note(gpu, *address, bytes, swappable);
    else
        nvs_memory_return(gpu, bytes, swappable);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *d, size_t n)
{
    NVS_PASS_UNLESS_READY(cuMemAlloc_v2(d, n));
    struct nvs_gpu *gpu = nvs_current_gpu();
    if (!gpu || !d || !n)
        return nvs_real.cuMemAlloc_v2(d, n);
    bool managed = makes_managed(gpu);
    CUresult result = nvs_memory_reserve(gpu, n, managed);
    if (result != CUDA_SUCCESS)
        return result;
    result = managed ? nvs_real.cuMemAllocManaged(d, n, CU_MEM_ATTACH_GLOBAL) : nvs_real.cuMemAlloc_v2(d, n);
    return settle(result, gpu, d, n, managed);
}

CUresult cuMemAllocManaged(CUdeviceptr *d, size_t n, unsigned flags)
{
    NVS_PASS_UNLESS_READY(cuMemAllocManaged(d, n, flags));
    struct nvs_gpu *gpu = nvs_current_gpu();
    CUresult result = gpu && d && n ? nvs_memory_reserve(gpu, n, true) : CUDA_SUCCESS;
    if (!gpu || !d || !n || result != CUDA_SUCCESS)
        return result != CUDA_SUCCESS ? result : nvs_real.cuMemAllocManaged(d, n, flags);
    return settle(nvs_real.cuMemAllocManaged(d, n, flags), gpu, d, n, true);
}

/* The driver alone knows a native pitch: charged by our estimate first, corrected by the answer. */
static CUresult native_pitch(struct nvs_gpu *gpu, CUdeviceptr *d, size_t *pitch, size_t width, size_t height, unsigned element)
{
    size_t estimate = (width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT * height;
    CUresult result = nvs_memory_reserve(gpu, estimate, false);
    if (result != CUDA_SUCCESS)
        return result;
    result = settle(nvs_real.cuMemAllocPitch_v2(d, pitch, width, height, element), gpu, d, estimate, false);
    if (result == CUDA_SUCCESS && *pitch * height > estimate) {
        nvs_memory_add(gpu, *pitch * height - estimate, false);
        note(gpu, *d, *pitch * height, false);
    }
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *d, size_t *pitch, size_t width, size_t height, unsigned element)
{
    NVS_PASS_UNLESS_READY(cuMemAllocPitch_v2(d, pitch, width, height, element));
    struct nvs_gpu *gpu = nvs_current_gpu();
    bool is_plain = (element == 4 || element == 8 || element == 16) && width && height && d && pitch;
    if (!gpu || !is_plain || width > NVS_MAX_BYTES || height > NVS_MAX_BYTES / (width + PITCH_ALIGNMENT))
        return nvs_real.cuMemAllocPitch_v2(d, pitch, width, height, element);
    if (!makes_managed(gpu))
        return native_pitch(gpu, d, pitch, width, height, element);
    size_t row = (width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
    CUresult result = nvs_memory_reserve(gpu, row * height, true);
    if (result != CUDA_SUCCESS)
        return result;
    result = settle(nvs_real.cuMemAllocManaged(d, row * height, CU_MEM_ATTACH_GLOBAL), gpu, d, row * height, true);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

/* The entry goes before the address does: another thread may be given the same one at once. */
CUresult cuMemFree_v2(CUdeviceptr d)
{
    NVS_PASS_UNLESS_READY(cuMemFree_v2(d));
    struct nvs_entry entry;
    if (!nvs_memory_take(NVS_KIND_MEMORY, d, &entry))
        return nvs_pool_free(d, (struct nvs_free){.plain = nvs_real.cuMemFree_v2});
    CUresult result = nvs_real.cuMemFree_v2(d);
    if (result == CUDA_SUCCESS)
        nvs_memory_return(&nvs_gpus[entry.gpu], entry.bytes, entry.swappable);
    else
        nvs_memory_note(&entry);
    return result;
}
