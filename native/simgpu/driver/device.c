/* Device queries. */
#include "driver/driver.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

CUresult cuDeviceGetCount(int *count)
{
    SIM_ENTER();
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim.visible_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    unsigned card;
    SIM_ENTER();
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_card_of(ordinal, &card));
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", sim_config()->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (uuid == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, sim.view.cards[card]->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    (void)luid, (void)mask;
    return CUDA_ERROR_NOT_SUPPORTED; /* exists on Windows only */
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (bytes == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sim.view.cards[card]->total_bytes;
    return CUDA_SUCCESS;
}

static const struct { int attribute, value; } attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024}, {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024}, {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647}, {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535}, {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536}, {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647}, {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1410000}, {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1}, {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 108},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1}, {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1}, {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1215000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120}, {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 41943040},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048}, {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1}, {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1}, {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1}, {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 167936},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536}, {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1}, {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 166912}, {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32}, {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1}, {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0}, {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (value == NULL || attribute < 1 || attribute > 200)
        return CUDA_ERROR_INVALID_VALUE;
    *value = 0; /* what the card does not have */
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == (int)attribute)
            *value = attributes[i].value;
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        *value = (int)sim_config()->compute_major;
    else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        *value = (int)sim_config()->compute_minor;
    else if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
        *value = (int)sim.view.cards[card]->pci_bus;
    else if (attribute == CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID)
        *value = (int)card;
    else if (attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
        *value = sim_has_concurrent_managed_access();
    else if (attribute == CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)
        *value = sim_config()->compute_major >= 9;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (major == NULL || minor == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *major = (int)sim_config()->compute_major;
    *minor = (int)sim_config()->compute_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(void *properties, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    /* maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock, totalConstantMemory, SIMDWidth,
     * memPitch, regsPerBlock, clockRate, textureAlign */
    static const int values[] = {1024, 1024, 1024, 64, 2147483647, 65535, 65535, 49152, 65536, 32, 2147483647, 65536, 1410000, 512};
    if (properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(properties, values, sizeof values);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    if (id == NULL || length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(id, (size_t)length, "%s", sim.view.cards[card]->pci_bus_id + 4); /* the usual form has four digits of domain */
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    unsigned domain, bus, slot;
    SIM_ENTER();
    if (device == NULL || id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(id, "%x:%x", &bus, &slot) != 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < sim.visible_count; i++) {
        if (domain == 0 && slot == 0 && sim.view.cards[sim.visible[i]]->pci_bus == bus) {
            *device = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    (void)format;
    if (width == NULL || channels == 0 || channels > 4)
        return CUDA_ERROR_INVALID_VALUE;
    *width = (size_t)1 << 28;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, int type, CUdevice device)
{
    unsigned card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    (void)type;
    if (supported == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice other)
{
    unsigned card, other_card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(device, &card));
    SIM_TRY(sim_card_of(other, &other_card));
    if (can == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *can = card != other_card;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice source, CUdevice destination)
{
    unsigned card, other_card;
    SIM_ENTER();
    SIM_TRY(sim_card_of(source, &card));
    SIM_TRY(sim_card_of(destination, &other_card));
    if (value == NULL || card == other_card || attribute < 1 || attribute > 4)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == 2; /* access is possible; atomics and array access are not */
    return CUDA_SUCCESS;
}

/* ---- functions without effect here ---- */

CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
    SIM_ENTER();
    (void)config, (void)output, (void)mode;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuProfilerStart(void) { CUcontext context; return sim_current(&context); }
CUresult cuProfilerStop(void) { CUcontext context; return sim_current(&context); }

CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    (void)scope;
    return target == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
