/* What there is to know about the devices. */
#include <string.h>

#include "runtime/runtime.h"

enum { ATTRIBUTE_PCI_LEN_MIN = 13 };

RT_API cudaError_t cudaGetDeviceCount(int *count);
RT_API cudaError_t cudaGetDeviceCount(int *count)
{
    if (count == NULL)
        return rt_leave(cudaErrorInvalidValue);
    *count = 0;
    cudaError_t error = rt_load();
    if (!error)
        error = rt_error(rt_legacy.DeviceGetCount(count));
    return rt_leave(error ? error : *count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

/* The handle of a device number; numbers and handles are the same only by habit. */
static cudaError_t handle_of(int device, CUdevice *handle)
{
    cudaError_t error = rt_check_device(device);
    return error ? error : rt_error(rt_legacy.DeviceGet(handle, device));
}

static cudaError_t attribute(const struct rt_driver *d, int *value, int which, int device)
{
    CUdevice handle;
    cudaError_t error = value == NULL ? cudaErrorInvalidValue : handle_of(device, &handle);
    return error ? error : rt_error(d->DeviceGetAttribute(value, (CUdevice_attribute)which, handle));
}

static void fill_ints(CUdevice device, int *field, size_t count, int first)
{
    for (size_t i = 0; i < count; i++)
        if (rt_legacy.DeviceGetAttribute(&field[i], (CUdevice_attribute)(first + (int)i), device) != CUDA_SUCCESS)
            field[i] = 0;
}

/* One field of any width: sizes are attributes of type int that widen. */
static void fill(CUdevice device, void *field, size_t size, int is_size, int first)
{
    int value = 0;
    if (first == 0)
        return;
    if (!is_size) {
        fill_ints(device, field, size / sizeof(int), first);
        return;
    }
    fill_ints(device, &value, 1, first);
    *(size_t *)field = (size_t)value;
}

static cudaError_t properties(const struct rt_driver *d, struct cudaDeviceProp *prop, int device)
{
    CUdevice handle;
    cudaError_t error = prop == NULL ? cudaErrorInvalidValue : handle_of(device, &handle);
    if (error)
        return error;
    memset(prop, 0, sizeof *prop);
#define RT_PROP(type, name, count, attribute)                                                                          \
    fill(handle, &prop->name, sizeof prop->name, _Generic((type)0, size_t: 1, default: 0), attribute);
#include "runtime/properties.def"
#undef RT_PROP
    error = rt_error(d->DeviceGetName(prop->name, sizeof prop->name, handle));
    if (!error)
        error = rt_error(d->DeviceGetUuid(&prop->uuid, handle));
    return error ? error : rt_error(d->DeviceTotalMem(&prop->totalGlobalMem, handle));
}

static cudaError_t pci_id(const struct rt_driver *d, char *text, int length, int device)
{
    CUdevice handle;
    cudaError_t error = text == NULL || length < ATTRIBUTE_PCI_LEN_MIN ? cudaErrorInvalidValue : handle_of(device, &handle);
    return error ? error : rt_error(d->DeviceGetPCIBusId(text, length, handle));
}

static cudaError_t by_pci_id(const struct rt_driver *d, int *device, const char *text)
{
    CUdevice handle = 0;
    if (device == NULL || text == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = rt_error(d->DeviceGetByPCIBusId(&handle, text));
    *device = (int)handle;
    return error;
}

static cudaError_t can_access(const struct rt_driver *d, int *can, int device, int peer)
{
    CUdevice a, b;
    cudaError_t error = can == NULL ? cudaErrorInvalidValue : handle_of(device, &a);
    if (!error)
        error = handle_of(peer, &b);
    return error ? error : rt_error(d->DeviceCanAccessPeer(can, a, b));
}

static cudaError_t p2p_attribute(const struct rt_driver *d, int *value, int which, int device, int peer)
{
    CUdevice a, b;
    cudaError_t error = value == NULL ? cudaErrorInvalidValue : handle_of(device, &a);
    if (!error)
        error = handle_of(peer, &b);
    return error ? error : rt_error(d->DeviceGetP2PAttribute(value, which, a, b));
}

static cudaError_t peer_access(const struct rt_driver *d, int peer, int enable)
{
    CUcontext context;
    cudaError_t error = rt_check_device(peer);
    if (!error)
        error = rt_primary_context(peer, &context);
    if (error)
        return error;
    return rt_error(enable ? d->CtxEnablePeerAccess(context, 0) : d->CtxDisablePeerAccess(context));
}

static cudaError_t pool_of(const struct rt_driver *d, cudaMemPool_t *pool, int device, int is_default)
{
    CUdevice handle;
    cudaError_t error = pool == NULL ? cudaErrorInvalidValue : handle_of(device, &handle);
    if (error)
        return error;
    return rt_error(is_default ? d->DeviceGetDefaultMemPool(pool, handle) : d->DeviceGetMemPool(pool, handle));
}

static cudaError_t set_pool(const struct rt_driver *d, int device, cudaMemPool_t pool)
{
    CUdevice handle;
    cudaError_t error = handle_of(device, &handle);
    return error ? error : rt_error(d->DeviceSetMemPool(handle, pool));
}

static cudaError_t trim_graphs(const struct rt_driver *d, int device)
{
    CUdevice handle;
    cudaError_t error = handle_of(device, &handle);
    return error ? error : rt_error(d->DeviceGraphMemTrim(handle));
}

RT_CALL0(cudaDeviceGetAttribute, (int *value, int which, int device), attribute(d, value, which, device))
#if NVS_CUDART_MAJOR == 12
RT_CALL0(cudaGetDeviceProperties_v2, (struct cudaDeviceProp * prop, int device), properties(d, prop, device))
#else
RT_CALL0(cudaGetDeviceProperties, (struct cudaDeviceProp * prop, int device), properties(d, prop, device))
#endif
RT_CALL0(cudaDeviceGetPCIBusId, (char *text, int length, int device), pci_id(d, text, length, device))
RT_CALL0(cudaDeviceGetByPCIBusId, (int *device, const char *text), by_pci_id(d, device, text))
RT_CALL0(cudaDeviceCanAccessPeer, (int *can, int device, int peer), can_access(d, can, device, peer))
RT_CALL0(cudaDeviceGetP2PAttribute, (int *value, int which, int device, int peer), p2p_attribute(d, value, which, device, peer))
RT_CALL(cudaDeviceEnablePeerAccess, (int peer, unsigned flags), (flags ? cudaErrorInvalidValue : peer_access(d, peer, 1)))
RT_CALL(cudaDeviceDisablePeerAccess, (int peer), peer_access(d, peer, 0))
RT_CALL0(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), pool_of(d, pool, device, 1))
RT_CALL0(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device), pool_of(d, pool, device, 0))
RT_CALL0(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), set_pool(d, device, pool))
RT_CALL0(cudaDeviceGraphMemTrim, (int device), trim_graphs(d, device))
