/* What a pointer is: attributes, advice, residency by prefetch. */
#include "driver.h"
#include "vmm.h"

#include <string.h>

struct subject { uint32_t memory; uint64_t base, size, id; CUcontext context; unsigned card; bool host; struct sim_allocation *allocation; };

static bool describe(uint64_t address, struct subject *subject)
{
    struct sim_range range;
    *subject = (struct subject){.memory = 0};
    struct sim_allocation *allocation = sim_memory_at(address);
    if (allocation != NULL) {
        *subject = (struct subject){.memory = allocation->memory, .base = allocation->base, .size = allocation->size,
                                    .id = allocation->id, .context = allocation->context, .card = allocation->card,
                                    .allocation = allocation};
        return true;
    }
    if (sim_range_find(SIM_MAPPED_RANGES, address, &range)) {
        struct sim_mapping *mapping = range.owner;
        *subject = (struct subject){.memory = SIM_TRACE_PHYSICAL, .base = range.base, .size = range.size,
                                    .id = mapping->physical->id, .card = mapping->physical->card,
                                    .host = mapping->physical->host};
        return true;
    }
    if (sim_range_find(SIM_HOST_RANGES, address, &range)) {
        *subject = (struct subject){.memory = SIM_TRACE_PINNED, .base = range.base, .size = range.size, .host = true,
                                    .id = range.base, .context = ((struct sim_host *)range.owner)->context};
        return true;
    }
    return false;
}

static int ordinal_of(unsigned card)
{
    for (int i = 0; i < sim.visible_count; i++)
        if (sim.visible[i] == (int)card)
            return i;
    return -1;
}

bool sim_is_device_address(uint64_t address, unsigned *card)
{
    struct subject subject;
    bool found = describe(address, &subject) && !subject.host;
    if (found)
        *card = subject.card;
    return found;
}

/* The attribute of a known pointer. */
static CUresult attribute_of(const struct subject *subject, CUpointer_attribute attribute, CUdeviceptr pointer, void *data)
{
    bool device = !subject->host;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = subject->context;
        return subject->context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = (void *)(uintptr_t)pointer;
        return device && subject->memory != SIM_TRACE_MANAGED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = subject->allocation != NULL ? subject->allocation->sync_memops : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = subject->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = subject->memory == SIM_TRACE_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = ordinal_of(subject->card);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)data = subject->memory == SIM_TRACE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(uint64_t *)data = subject->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = subject->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)data = subject->memory == SIM_TRACE_PHYSICAL ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = subject->allocation != NULL ? subject->allocation->pool : NULL;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct subject subject;
    SIM_ENTER();
    if (data == NULL || !describe(pointer, &subject))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(&subject, attribute, pointer, data);
}

/* Attributes a pointer does not have are zero here, and an unknown pointer is no error. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    struct subject subject;
    SIM_ENTER();
    if (count == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = describe(pointer, &subject);
    for (unsigned i = 0; i < count; i++) {
        if (data[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        bool wide = attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER
                    || attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID;
        memset(data[i], 0, wide ? 8 : 4);
        if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
        if (known && attribute_of(&subject, attributes[i], pointer, data[i]) != CUDA_SUCCESS)
            memset(data[i], 0, wide ? 8 : 4);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    SIM_ENTER();
    struct sim_allocation *allocation = sim_memory_at(pointer);
    if (value == NULL || allocation == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    allocation->sync_memops = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}

CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t size, int type, unsigned long long flags)
{
    SIM_ENTER();
    (void)type;
    if (handle == NULL || size == 0 || flags > 1 || sim_memory_range(pointer, size) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_trace_unsupported("cuMemGetHandleForAddressRange");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- advice and prefetching ---- */

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

static CUresult advise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, int place)
{
    struct sim_allocation *allocation;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    uint32_t bit = place >= 0 ? 1u << place : 1u << 31;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        allocation->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        allocation->preferred = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? place : -2;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        allocation->accessed_by |= bit;
        return CUDA_SUCCESS;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        allocation->accessed_by &= ~bit;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemAdvise(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device)
{
    int place = -1;
    SIM_ENTER();
    if (advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        SIM_TRY(device_place(device, &place));
    return advise(pointer, bytes, advice, place);
}

CUresult cuMemAdvise_v2(CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    int place = -1;
    SIM_ENTER();
    if (advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        SIM_TRY(location_place(location, &place));
    return advise(pointer, bytes, advice, place);
}

static CUresult prefetch(CUdeviceptr pointer, size_t bytes, int place, CUstream handle, bool per_thread)
{
    struct sim_allocation *allocation;
    CUstream stream;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    struct sim_op op = {.kind = SIM_OP_PREFETCH};
    op.u.prefetch.address = pointer;
    op.u.prefetch.bytes = bytes;
    op.u.prefetch.to_device = place >= 0;
    allocation->prefetched = place;
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

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr pointer, size_t bytes)
{
    struct sim_allocation *allocation;
    SIM_TRY(managed_range(pointer, bytes, &allocation));
    if (data == NULL || size < 4 || size % 4 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    int *out = data;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = (int)allocation->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = allocation->preferred;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = allocation->prefetched;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0; i < size / 4; i++)
            out[i] = -2;
        for (int place = 0, n = 0; place < 31 && (size_t)n < size / 4; place++)
            if ((allocation->accessed_by & 1u << place) != 0)
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
