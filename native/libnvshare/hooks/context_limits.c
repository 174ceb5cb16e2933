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

/* Notes what was charged, and returns the charge before it. Another thread may set the limit at the same time: what is charged in the
 * end is what the driver has after the last of them. The driver may also have rounded the value. */
static void note(struct nvs_gpu *gpu, struct nvs_ledger_entry *charged, CUlimit limit, size_t value)
{
    for (;;) {
        struct nvs_ledger_entry before;
        if (nvs_entries_replace(charged, &before))
            nvs_memory_return_entry(&before);
        if (nvs_real.cuCtxGetLimit(&value, limit) != CUDA_SUCCESS || bytes_of(gpu, limit, value) == charged->bytes)
            return;
        charged->bytes = bytes_of(gpu, limit, value);
        nvs_memory_add(gpu, charged->bytes, false);
    }
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
    struct nvs_ledger_entry charged = {.key = (uintptr_t)context, .bytes = bytes_of(gpu, limit, value), .owner = (uintptr_t)context,
                                       .gpu = (uint16_t)gpu->index, .kind = (uint8_t)kind};
    CUresult result = nvs_memory_reserve(gpu, charged.bytes, false); /* the old and the new together: for a moment only */
    if (result != CUDA_SUCCESS)
        return result;
    result = nvs_real.cuCtxSetLimit(limit, value);
    if (result == CUDA_SUCCESS)
        note(gpu, &charged, limit, value);
    else
        nvs_memory_return(gpu, charged.bytes, false);
    return result;
}
