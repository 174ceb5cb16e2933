/* Virtual memory management: reserved addresses, and mappings of physical memory (physical.c) into them. */
#define _GNU_SOURCE
#include "driver/memory/vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

/* ---- addresses ---- */

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr address, unsigned long long flags)
{
    SIM_ENTER();
    if (pointer == NULL || size == 0 || size % SIM_CHUNK_BYTES != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SIM_CHUNK_BYTES)
        alignment = SIM_CHUNK_BYTES;
    char *at = mmap((void *)(uintptr_t)address, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t base = ((uintptr_t)at + alignment - 1) & ~(uintptr_t)(alignment - 1);
    if (base > (uintptr_t)at)
        munmap(at, base - (uintptr_t)at);
    munmap((void *)(base + size), (uintptr_t)at + alignment - base);
    if (!sim_range_add(SIM_RESERVED_RANGES, base, size, NULL))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = base;
    return CUDA_SUCCESS;
}

static bool is_reserved(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    return size > 0 && size % SIM_CHUNK_BYTES == 0 && sim_range_find(SIM_RESERVED_RANGES, pointer, &range)
        && size <= range.size - (pointer - range.base);
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    SIM_ENTER();
    if (!sim_range_find(SIM_RESERVED_RANGES, pointer, &range) || range.base != pointer || range.size != size)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at += SIM_CHUNK_BYTES)
        if (sim_range_find(SIM_MAPPED_RANGES, at, &range))
            return CUDA_ERROR_INVALID_VALUE; /* still mapped */
    sim_range_remove(SIM_RESERVED_RANGES, pointer, &range);
    munmap((void *)(uintptr_t)pointer, size);
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct sim_physical *physical;
    SIM_TRY(sim_physical_of(handle, &physical));
    if (flags != 0 || offset + size > physical->size || pointer % SIM_CHUNK_BYTES != 0 || !is_reserved(pointer, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mapping->physical = physical;
    mapping->offset = offset;
    if (!sim_range_add(SIM_MAPPED_RANGES, pointer, size, mapping)) {
        free(mapping);
        return CUDA_ERROR_INVALID_VALUE; /* something is mapped there */
    }
    atomic_fetch_add(&physical->references, 1);
    /* No access yet: that is cuMemSetAccess' business, and a program that forgets it shall notice. */
    void *at = mmap((void *)(uintptr_t)pointer, size, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd, (off_t)(physical->offset + offset));
    if (at == MAP_FAILED) {
        struct sim_range range;
        sim_range_remove(SIM_MAPPED_RANGES, pointer, &range);
        free(mapping);
        sim_physical_drop(physical);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    struct sim_range range;
    SIM_ENTER();
    if (size == 0 || size > UINT64_MAX - pointer)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size)
        if (!sim_range_find(SIM_MAPPED_RANGES, at, &range) || range.base != at || range.base + range.size > pointer + size
            || ((struct sim_mapping *)range.owner)->physical->ipc)
            return CUDA_ERROR_INVALID_VALUE; /* whole mappings only */
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size) {
        sim_range_remove(SIM_MAPPED_RANGES, at, &range);
        struct sim_mapping *mapping = range.owner;
        sim_card_drain(mapping->physical->card);
        mmap((void *)(uintptr_t)at, range.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        sim_physical_drop(mapping->physical);
        free(mapping);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *access, size_t count)
{
    struct sim_range range;
    SIM_ENTER();
    if (access == NULL || count == 0 || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    int flags = access[0].flags;
    if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ && flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t at = pointer; at < pointer + size; at = range.base + range.size) {
        if (!sim_range_find(SIM_MAPPED_RANGES, at, &range))
            return CUDA_ERROR_INVALID_VALUE;
        ((struct sim_mapping *)range.owner)->access = flags;
    }
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? PROT_NONE : PROT_READ | PROT_WRITE;
    return mprotect((void *)(uintptr_t)pointer, size, protection) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr pointer)
{
    struct sim_range range;
    SIM_ENTER();
    if (flags == NULL || location == NULL || !sim_range_find(SIM_MAPPED_RANGES, pointer, &range))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = (unsigned long long)((struct sim_mapping *)range.owner)->access;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct sim_range range;
    SIM_ENTER();
    if (handle == NULL || !sim_range_find(SIM_MAPPED_RANGES, (uint64_t)(uintptr_t)address, &range))
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_physical *physical = ((struct sim_mapping *)range.owner)->physical;
    atomic_fetch_add(&physical->references, 1);
    atomic_fetch_add(&physical->handles, 1);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}
