/* Device memory that has an address: cuMemAlloc and similar calls. Charged before the driver is called, returned if it refuses. */
#include "gate/frees.h"
#include "hooks/hooks.h"
#include "hooks/pools.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "mover/advice.h"
#include "mover/evidence.h"

enum { PITCH_ALIGNMENT = 512 };

/* What the driver was asked for. SMALL: native memory because it is small. CONVERTED: managed memory in place of device memory. */
enum form { NATIVE, SMALL, CONVERTED, MANAGED };

static bool is_swappable(enum form form) { return form == CONVERTED || form == MANAGED; }

static void note(struct nvs_gpu *gpu, CUcontext context, CUdeviceptr address, uint64_t bytes, enum form form)
{
    nvs_entries_note(&(struct nvs_ledger_entry){.key = address, .bytes = bytes, .owner = (uintptr_t)context, .gpu = (uint16_t)gpu->index,
                                        .kind = NVS_KIND_MEMORY, .swappable = is_swappable(form), .is_converted = form == CONVERTED,
                                        .is_small = form == SMALL});
}

static CUresult reserve(struct nvs_gpu *gpu, uint64_t bytes, enum form *form)
{
    bool is_small;
    *form = NATIVE;
    if (nvs_memory_stays_native(gpu))
        return nvs_memory_reserve(gpu, bytes, false);
    CUresult result = nvs_memory_reserve_converted(gpu, bytes, &is_small);
    *form = is_small ? SMALL : CONVERTED;
    return result;
}

static void return_charge(struct nvs_gpu *gpu, uint64_t bytes, enum form form)
{
    if (form == SMALL)
        nvs_memory_return_small(gpu, bytes);
    else
        nvs_memory_return(gpu, bytes, is_swappable(form));
}

/* After the driver's call. */
static CUresult note_or_return(CUresult result, struct nvs_gpu *gpu, CUcontext context, CUdeviceptr *address, uint64_t bytes, enum form form)
{
    if (result == CUDA_SUCCESS)
        note(gpu, context, *address, bytes, form);
    else
        return_charge(gpu, bytes, form);
    return result;
}

/* A small allocation is managed after all if the card is full of native memory. */
static enum form form_after(CUresult result, struct nvs_gpu *gpu, uint64_t bytes, enum form form)
{
    if (form != SMALL || result != CUDA_ERROR_OUT_OF_MEMORY)
        return form;
    nvs_memory_small_is_converted(gpu, bytes);
    return CONVERTED;
}

/* The memory is advised before it is noted, because the helper may hold it on the host from then on. If no advice was wanted then,
 * this is checked again after it is noted: a thread that makes the advice wanted meanwhile may not find this memory, because it was not
 * noted yet (nvs_advice_peers). */
static CUresult convert(struct nvs_gpu *gpu, CUcontext context, CUdeviceptr *d, size_t n)
{
    CUresult result = nvs_real.cuMemAllocManaged(d, n, CU_MEM_ATTACH_GLOBAL);
    bool is_advised = result == CUDA_SUCCESS && nvs_advice_allocated(gpu, *d, n);
    note_or_return(result, gpu, context, d, n, CONVERTED);
    if (result == CUDA_SUCCESS && !is_advised)
        nvs_advice_noted(gpu, *d, n);
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *d, size_t n)
{
    NVS_BEGIN_HOOK(cuMemAlloc_v2(d, n));
    CUcontext context;
    struct nvs_gpu *gpu = nvs_gpu_current_with_context(&context);
    if (!gpu || !d || !n)
        return nvs_real.cuMemAlloc_v2(d, n);
    nvs_frees_do();
    enum form form;
    CUresult result = reserve(gpu, n, &form);
    if (result != CUDA_SUCCESS)
        return result;
    if (form != CONVERTED)
        result = nvs_real.cuMemAlloc_v2(d, n);
    form = form_after(result, gpu, n, form);
    return form == CONVERTED ? convert(gpu, context, d, n) : note_or_return(result, gpu, context, d, n, form);
}

CUresult cuMemAllocManaged(CUdeviceptr *d, size_t n, unsigned flags)
{
    NVS_BEGIN_HOOK(cuMemAllocManaged(d, n, flags));
    CUcontext context;
    struct nvs_gpu *gpu = nvs_gpu_current_with_context(&context);
    CUresult result = gpu && d && n ? nvs_memory_reserve(gpu, n, true) : CUDA_SUCCESS;
    if (!gpu || !d || !n || result != CUDA_SUCCESS)
        return result != CUDA_SUCCESS ? result : nvs_real.cuMemAllocManaged(d, n, flags);
    return note_or_return(nvs_real.cuMemAllocManaged(d, n, flags), gpu, context, d, n, MANAGED);
}

/* Only the driver knows the pitch of native memory: an estimate was charged, and is corrected after the call. note() replaces the
 * earlier entry and returns its charge. */
static void correct_pitch(struct nvs_gpu *gpu, CUcontext context, CUdeviceptr address, uint64_t estimate, uint64_t bytes)
{
    if (bytes <= estimate)
        return;
    nvs_memory_add(gpu, bytes, false);
    note(gpu, context, address, bytes, NATIVE);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *d, size_t *pitch, size_t width, size_t height, unsigned element)
{
    NVS_BEGIN_HOOK(cuMemAllocPitch_v2(d, pitch, width, height, element));
    CUcontext context;
    struct nvs_gpu *gpu = nvs_gpu_current_with_context(&context);
    bool is_plain = (element == 4 || element == 8 || element == 16) && width && height && d && pitch;
    if (!gpu || !is_plain || width > NVS_MAX_BYTES || height > NVS_MAX_BYTES / (width + PITCH_ALIGNMENT))
        return nvs_real.cuMemAllocPitch_v2(d, pitch, width, height, element);
    size_t row = (width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT, bytes = row * height;
    enum form form;
    CUresult result = reserve(gpu, bytes, &form);
    if (result != CUDA_SUCCESS)
        return result;
    if (form != CONVERTED)
        result = nvs_real.cuMemAllocPitch_v2(d, pitch, width, height, element);
    form = form_after(result, gpu, bytes, form);
    result = form == CONVERTED ? convert(gpu, context, d, bytes) : note_or_return(result, gpu, context, d, bytes, form);
    if (result == CUDA_SUCCESS && form == CONVERTED)
        *pitch = row;
    else if (result == CUDA_SUCCESS)
        correct_pitch(gpu, context, *d, bytes, *pitch * height);
    return result;
}

/* The entry is removed before the address is freed: the driver may give the same address to another thread at once. */
CUresult cuMemFree_v2(CUdeviceptr d)
{
    NVS_BEGIN_HOOK(cuMemFree_v2(d));
    struct nvs_ledger_entry entry;
    nvs_frees_do();
    if (!nvs_entries_take(NVS_KIND_MEMORY, d, &entry))
        return nvs_hook_pool_free(d, (struct nvs_free){.plain = nvs_real.cuMemFree_v2});
    CUresult result = nvs_real.cuMemFree_v2(d);
    if (result == CUDA_SUCCESS)
        nvs_memory_return_entry(&entry);
    else
        nvs_entries_note(&entry);
    return result;
}

/* Memory that the program advises is left alone: it knows better where it belongs. */
CUresult cuMemAdvise(CUdeviceptr d, size_t n, CUmem_advise advice, CUdevice to)
{
    NVS_BEGIN_HOOK(cuMemAdvise(d, n, advice, to));
    nvs_usage_left_alone(&nvs_evidence, d, n);
    return nvs_real.cuMemAdvise(d, n, advice, to);
}

CUresult cuMemAdvise_v2(CUdeviceptr d, size_t n, CUmem_advise advice, CUmemLocation to)
{
    NVS_BEGIN_HOOK(cuMemAdvise_v2(d, n, advice, to));
    nvs_usage_left_alone(&nvs_evidence, d, n);
    return nvs_real.cuMemAdvise_v2(d, n, advice, to);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    NVS_BEGIN_HOOK(cuCtxEnablePeerAccess(peer, flags));
    CUresult result = nvs_real.cuCtxEnablePeerAccess(peer, flags);
    if (result == CUDA_SUCCESS)
        nvs_advice_peers();
    return result;
}
