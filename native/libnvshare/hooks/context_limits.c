/* The heap and the stacks of kernels: device memory that a program takes with cuCtxSetLimit. Charged for what exceeds the defaults,
 * which are part of every context. */
#include "hooks/hooks.h"
#include "memory/entries.h"
#include "memory/memory.h"

#define DEFAULT_HEAP_BYTES (UINT64_C(8) << 20)
#define DEFAULT_STACK_BYTES UINT64_C(1024)

/* How many threads can be resident on the GPU: each has a stack. */
static uint64_t threads_of(const struct nvs_gpu *gpu)
{
    int processors = 0, threads = 0;
    nvs_real.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->index);
    nvs_real.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, gpu->index);
    return processors > 0 && threads > 0 ? (uint64_t)processors * (uint64_t)threads : 1;
}

static uint64_t bytes_of(const struct nvs_gpu *gpu, CUlimit limit, uint64_t value)
{
    uint64_t in_context = limit == CU_LIMIT_STACK_SIZE ? DEFAULT_STACK_BYTES : DEFAULT_HEAP_BYTES;
    uint64_t more = value > in_context ? value - in_context : 0, each = limit == CU_LIMIT_STACK_SIZE ? threads_of(gpu) : 1;
    return more < NVS_MAX_BYTES / each ? more * each : NVS_MAX_BYTES;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    NVS_BEGIN_HOOK(cuCtxSetLimit(limit, value));
    CUcontext context = NULL;
    struct nvs_gpu *gpu = nvs_gpu_current();
    nvs_real.cuCtxGetCurrent(&context);
    if (!gpu || !context || (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_MALLOC_HEAP_SIZE))
        return nvs_real.cuCtxSetLimit(limit, value);
    enum nvs_kind kind = limit == CU_LIMIT_STACK_SIZE ? NVS_KIND_STACK : NVS_KIND_HEAP;
    struct nvs_ledger_entry before, after = {.key = (uintptr_t)context, .bytes = bytes_of(gpu, limit, value),
                                             .owner = (uintptr_t)context, .gpu = (uint16_t)gpu->index, .kind = (uint8_t)kind};
    bool had_some = nvs_entries_find(kind, after.key, &before);
    CUresult result = nvs_memory_reserve(gpu, after.bytes, false); /* the old and the new together: for a moment only */
    if (result != CUDA_SUCCESS)
        return result;
    result = nvs_real.cuCtxSetLimit(limit, value);
    if (result != CUDA_SUCCESS) {
        nvs_memory_return(gpu, after.bytes, false);
        return result;
    }
    if (had_some)
        nvs_memory_return_entry(&before);
    nvs_entries_note(&after);
    return result;
}
