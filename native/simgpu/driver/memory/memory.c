/* Allocation of device, managed and host memory, and what can be asked about it. */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "driver/memory/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, uint32_t memory, unsigned flags)
{
    CUcontext context;
    struct sim_allocation *allocation;
    SIM_TRY(sim_current(&context));
    if (pointer == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_capture_unsafe());
    SIM_TRY(sim_memory_new(context, memory, bytes, &allocation));
    allocation->flags = flags;
    allocation->direct = true;
    *pointer = allocation->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    return allocate(pointer, bytes, SIM_TRACE_DEVICE, 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(pointer, bytes, SIM_TRACE_MANAGED, flags);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element)
{
    if (pitch == NULL || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = (width + 511) & ~(size_t)511;
    SIM_TRY(allocate(pointer, row * height, SIM_TRACE_DEVICE, 0));
    *pitch = row;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUcontext context;
    SIM_ENTER();
    if (pointer == 0)
        return CUDA_SUCCESS;
    SIM_TRY(sim_current(&context));
    SIM_TRY(sim_capture_unsafe());
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (allocation == NULL || allocation->base != pointer || allocation->memory == SIM_TRACE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    if (allocation->size > SIM_SMALL_LIMIT)
        sim_context_pass_lock(context);
    sim_card_drain(allocation->card); /* work that uses it may be under way */
    if (allocation->pool != NULL)
        sim_pool_give_back(allocation);
    else if (!allocation->of_graph) /* a graph's stays its own */
        sim_memory_free(allocation);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (available == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_card *card = sim.view.cards[context->card];
    sim_card_lock(card);
    sim_card_reap(card, sim.view.card_fds[context->card], sim.view.slots[context->card]);
    uint64_t used = sim_card_used(card);
    *total = card->total_bytes;
    *available = used < card->total_bytes ? card->total_bytes - used : 0;
    sim_card_unlock(card);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    CUcontext context;
    struct sim_range range;
    SIM_TRY(sim_current(&context));
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (allocation != NULL)
        range = (struct sim_range){.base = allocation->base, .size = allocation->size};
    else if (!sim_range_find(SIM_MAPPED_RANGES, pointer, &range) && !sim_range_find(SIM_HOST_RANGES, pointer, &range))
        return CUDA_ERROR_NOT_FOUND;
    if (base != NULL)
        *base = range.base;
    if (size != NULL)
        *size = range.size;
    return CUDA_SUCCESS;
}

/* ---- host memory ---- */

static CUresult add_host(uint64_t base, size_t bytes, unsigned flags, bool ours, CUcontext context)
{
    struct sim_host *host = malloc(sizeof *host);
    if (host == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *host = (struct sim_host){.bytes = bytes, .flags = flags, .ours = ours, .context = context};
    if (sim_range_add(SIM_HOST_RANGES, base, bytes, host))
        return CUDA_SUCCESS;
    free(host);
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (pointer == NULL || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_capture_unsafe());
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = add_host((uint64_t)(uintptr_t)at, bytes, flags | CU_MEMHOSTALLOC_DEVICEMAP, true, context);
    if (result != CUDA_SUCCESS) {
        munmap(at, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_trace_point(SIM_TRACE_ALLOC, context->card, bytes, (uint64_t)(uintptr_t)at, SIM_TRACE_PINNED);
    *pointer = at;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pointer, size_t bytes)
{
    return cuMemHostAlloc(pointer, bytes, 0);
}

static CUresult remove_host(void *pointer, bool ours, CUresult otherwise)
{
    struct sim_range range;
    if (!sim_range_find(SIM_HOST_RANGES, (uint64_t)(uintptr_t)pointer, &range) || range.base != (uint64_t)(uintptr_t)pointer
        || ((struct sim_host *)range.owner)->ours != ours)
        return otherwise;
    struct sim_host *host = range.owner;
    CUcontext context = host->context;
    if (sim_is(context, SIM_CONTEXT))
        sim_card_drain(context->card);
    sim_range_remove(SIM_HOST_RANGES, range.base, &range);
    if (ours) {
        munmap(pointer, host->bytes);
        sim_trace_point(SIM_TRACE_FREE, 0, host->bytes, range.base, SIM_TRACE_PINNED);
    }
    free(host);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *pointer)
{
    SIM_ENTER();
    SIM_TRY(sim_capture_unsafe());
    return pointer == NULL ? CUDA_SUCCESS : remove_host(pointer, true, CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (host == NULL || bytes == 0 || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_capture_unsafe());
    return add_host((uint64_t)(uintptr_t)host, bytes, flags | CU_MEMHOSTREGISTER_DEVICEMAP, false, context);
}

CUresult cuMemHostUnregister(void *host)
{
    SIM_ENTER();
    SIM_TRY(sim_capture_unsafe());
    return remove_host(host, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned int flags)
{
    struct sim_range range;
    CUcontext context;
    SIM_TRY(sim_current(&context));
    if (pointer == NULL || flags != 0 || !sim_range_find(SIM_HOST_RANGES, (uint64_t)(uintptr_t)host, &range))
        return CUDA_ERROR_INVALID_VALUE;
    *pointer = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *host)
{
    struct sim_range range;
    SIM_ENTER();
    if (flags == NULL || !sim_range_find(SIM_HOST_RANGES, (uint64_t)(uintptr_t)host, &range))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ((struct sim_host *)range.owner)->flags;
    return CUDA_SUCCESS;
}
