/* Advice about managed memory, and prefetching it. */
#include "driver/memory/arena.h"

static CUresult managed_range(CUdeviceptr pointer, size_t bytes, struct sim_allocation **allocation)
{
    SIM_ENTER();
    *allocation = sim_memory_range(pointer, bytes);
    return bytes > 0 && *allocation != NULL && (*allocation)->memory == SIM_TRACE_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult device_place(CUdevice device, int *place)
{
    unsigned card;
    *place = -1;
    if (device == -1)
        return CUDA_SUCCESS;
    SIM_TRY(sim_card_of(device, &card));
    *place = device;
    return CUDA_SUCCESS;
}

static CUresult location_place(CUmemLocation location, int *place)
{
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return device_place(location.id, place);
    *place = -1;
    return location.type >= CU_MEM_LOCATION_TYPE_HOST && location.type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
               ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool change(struct sim_advice *at, CUmem_advise advice, int place)
{
    uint32_t bit = place >= 0 ? 1u << place : 1u << 31;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        at->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return true;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        at->preferred = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? place : -2;
        return true;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        at->accessed_by |= bit;
        return true;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        at->accessed_by &= ~bit;
        return true;
    default:
        return false;
    }
}

/* The advice for the chunk at an address, or of the whole allocation if it is small. The arena is locked. */
static struct sim_advice *advice_at(struct sim_allocation *allocation, uint64_t address)
{
    uint64_t chunk = (address - (uint64_t)(uintptr_t)sim_arena.base) >> SIM_CHUNK_SHIFT;
    return sim_arena.at[chunk].whole == allocation ? &sim_arena.at[chunk].advice : &allocation->advice;
}

static uint64_t next_chunk(uint64_t address) { return (address | (SIM_CHUNK_BYTES - 1)) + 1; }

static CUresult advise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, int place)
{
    struct sim_allocation *allocation;
    bool is_known = true;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    pthread_mutex_lock(&sim_arena.lock);
    for (uint64_t at = pointer; is_known && at < pointer + bytes; at = next_chunk(at))
        is_known = change(advice_at(allocation, at), advice, place);
    pthread_mutex_unlock(&sim_arena.lock);
    return is_known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* For other advice the device is not looked at. */
static bool names_place(CUmem_advise advice)
{
    return advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device)
{
    int place = -1;
    SIM_ENTER();
    if (names_place(advice))
        SIM_TRY(device_place(device, &place));
    return advise(pointer, bytes, advice, place);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    int place = -1;
    SIM_ENTER();
    if (names_place(advice))
        SIM_TRY(location_place(location, &place));
    return advise(pointer, bytes, advice, place);
}

static CUresult prefetch(CUdeviceptr pointer, size_t bytes, int place, CUstream handle, bool per_thread)
{
    struct sim_allocation *allocation;
    CUstream stream;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    if (place >= 0 && !sim_has_concurrent_managed_access())
        return CUDA_ERROR_INVALID_DEVICE;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    struct sim_op op = {.kind = SIM_OP_PREFETCH};
    op.u.prefetch.address = pointer;
    op.u.prefetch.bytes = bytes;
    op.u.prefetch.card = place >= 0 ? sim.visible[place] : -1;
    pthread_mutex_lock(&sim_arena.lock);
    for (uint64_t at = pointer; at < pointer + bytes; at = next_chunk(at))
        advice_at(allocation, at)->prefetched = place;
    pthread_mutex_unlock(&sim_arena.lock);
    return sim_submit(stream, &op);
}

#define PREFETCH(suffix, per_thread) \
    CUresult cuMemPrefetchAsync##suffix(CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream) \
    { int place; SIM_ENTER(); SIM_TRY(device_place(device, &place)); return prefetch(pointer, bytes, place, stream, per_thread); } \
    CUresult cuMemPrefetchAsync_v2##suffix(CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned int flags, CUstream stream) \
    { int place; SIM_ENTER(); if (flags != 0) return CUDA_ERROR_INVALID_VALUE; SIM_TRY(location_place(location, &place)); \
      return prefetch(pointer, bytes, place, stream, per_thread); }
PREFETCH(, false)
PREFETCH(_ptsz, true)

/* What all chunks of the range have in common: places that differ are none. */
static struct sim_advice common_advice(struct sim_allocation *allocation, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&sim_arena.lock);
    struct sim_advice common = *advice_at(allocation, address);
    for (uint64_t at = next_chunk(address); at < address + bytes; at = next_chunk(at)) {
        const struct sim_advice *other = advice_at(allocation, at);
        common.preferred = other->preferred == common.preferred ? common.preferred : -2;
        common.prefetched = other->prefetched == common.prefetched ? common.prefetched : -2;
        common.accessed_by &= other->accessed_by;
        common.read_mostly &= other->read_mostly;
    }
    pthread_mutex_unlock(&sim_arena.lock);
    return common;
}

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer, size_t bytes)
{
    struct sim_allocation *allocation;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    if (data == NULL || size < 4 || size % 4 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_advice advice = common_advice(allocation, pointer, bytes);
    int *out = data;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = (int)advice.read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = advice.preferred;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = advice.prefetched;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0; i < size / 4; i++)
            out[i] = -2;
        for (int place = 0, n = 0; place < 31 && (size_t)n < size / 4; place++)
            if ((advice.accessed_by & 1u << place) != 0)
                out[n++] = place;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count, CUdeviceptr pointer, size_t bytes)
{
    SIM_ENTER();
    if (data == NULL || sizes == NULL || attributes == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        SIM_TRY(cuMemRangeGetAttribute(data[i], sizes[i], attributes[i], pointer, bytes));
    return CUDA_SUCCESS;
}
