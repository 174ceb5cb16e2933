/* What a pointer is: its attributes. */
#include "driver/driver.h"
#include "driver/memory/vmm.h"

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
                                    .host = allocation->memory == SIM_TRACE_PINNED, .allocation = allocation};
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

int sim_ordinal_of(unsigned card)
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
    const struct sim_allocation *allocation = subject->allocation;
    bool managed = subject->memory == SIM_TRACE_MANAGED && (allocation == NULL || allocation->pool == NULL || sim.shows_managed_pools);
    const struct { uint64_t value; size_t bytes; } attributes[] = {
        [CU_POINTER_ATTRIBUTE_CONTEXT] = {(uintptr_t)subject->context, sizeof(CUcontext)},
        [CU_POINTER_ATTRIBUTE_MEMORY_TYPE] = {subject->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_DEVICE_POINTER] = {pointer, sizeof(CUdeviceptr)},
        [CU_POINTER_ATTRIBUTE_HOST_POINTER] = {pointer, sizeof(void *)},
        [CU_POINTER_ATTRIBUTE_SYNC_MEMOPS] = {allocation != NULL ? allocation->sync_memops : 0, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_BUFFER_ID] = {subject->id, sizeof(unsigned long long)},
        [CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID] = {subject->id, sizeof(unsigned long long)},
        [CU_POINTER_ATTRIBUTE_IS_MANAGED] = {managed, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL] = {(uint64_t)sim_ordinal_of(subject->card), sizeof(int)},
        [CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE] = {subject->memory == SIM_TRACE_DEVICE, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_RANGE_START_ADDR] = {subject->base, sizeof(uint64_t)},
        [CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR] = {subject->base, sizeof(uint64_t)},
        [CU_POINTER_ATTRIBUTE_RANGE_SIZE] = {subject->size, sizeof(size_t)},
        [CU_POINTER_ATTRIBUTE_MAPPING_SIZE] = {subject->size, sizeof(size_t)},
        [CU_POINTER_ATTRIBUTE_MAPPED] = {1, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES] =
            {subject->memory == SIM_TRACE_PHYSICAL ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0, sizeof(uint64_t)},
        [CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE] = {0, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE] = {0, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_ACCESS_FLAGS] = {CU_MEM_ACCESS_FLAGS_PROT_READWRITE, sizeof(unsigned)},
        [CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE] = {(uintptr_t)(allocation != NULL ? allocation->pool : NULL), sizeof(CUmemoryPool)},
    };
    if ((size_t)attribute >= sizeof attributes / sizeof *attributes || attributes[attribute].bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(data, &attributes[attribute].value, attributes[attribute].bytes); /* little-endian: the low bytes come first */
    bool has_none = (attribute == CU_POINTER_ATTRIBUTE_CONTEXT && subject->context == NULL)
                    || (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !subject->host && !managed);
    return has_none ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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
