/* The thread's device and its context. The runtime works in the primary context of a device, retained once per process
 * and made current when a thread has none; a context that the program pushed through the driver API is used as it is.
 * cudaSetDevice makes the context at once, as it does from CUDA 12 on; cudaGetDevice never makes one.
 */
#include <pthread.h>

#include "runtime/runtime.h"

enum { DEVICES_MAX = 64 };

static _Thread_local int chosen;
static CUcontext primary[DEVICES_MAX];
static pthread_mutex_t primaries = PTHREAD_MUTEX_INITIALIZER;

cudaError_t rt_check_device(int device)
{
    int count = 0;
    cudaError_t error = rt_error(rt_legacy.DeviceGetCount(&count));
    if (error)
        return error;
    if (count == 0)
        return cudaErrorNoDevice;
    return device < 0 || device >= count || device >= DEVICES_MAX ? cudaErrorInvalidDevice : cudaSuccess;
}

/* The device number has been checked. */
cudaError_t rt_primary_context(int device, CUcontext *context)
{
    cudaError_t error = cudaSuccess;
    CUdevice handle;
    pthread_mutex_lock(&primaries);
    if (primary[device] == NULL) {
        error = rt_error(rt_legacy.DeviceGet(&handle, device));
        if (!error)
            error = rt_error(rt_legacy.DevicePrimaryCtxRetain(&primary[device], handle));
        if (error)
            primary[device] = NULL;
    }
    *context = primary[device];
    pthread_mutex_unlock(&primaries);
    return error;
}

static cudaError_t bind(int device)
{
    CUcontext context;
    cudaError_t error = rt_check_device(device);
    if (!error)
        error = rt_primary_context(device, &context);
    return error ? error : rt_error(rt_legacy.CtxSetCurrent(context));
}

cudaError_t rt_enter(void)
{
    CUcontext context = NULL;
    cudaError_t error = rt_load();
    if (error)
        return error;
    if (rt_legacy.CtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL)
        return cudaSuccess;
    return bind(chosen);
}

int rt_current_device(void)
{
    CUcontext context = NULL;
    CUdevice device;
    if (rt_legacy.CtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL && rt_legacy.CtxGetDevice(&device) == CUDA_SUCCESS)
        return (int)device;
    return chosen;
}

static cudaError_t set_device(int device)
{
    cudaError_t error = bind(device);
    if (!error)
        chosen = device;
    return error;
}

static cudaError_t get_device(int *device)
{
    if (device == NULL)
        return cudaErrorInvalidValue;
    *device = rt_current_device();
    return rt_check_device(*device);
}

/* Everything the process had on the device is gone; the next call creates a new context. */
static cudaError_t reset(const struct rt_driver *d)
{
    int device = rt_current_device();
    CUdevice handle;
    cudaError_t error = rt_error(d->DeviceGet(&handle, device));
    if (error)
        return error;
    pthread_mutex_lock(&primaries);
    if (primary[device] != NULL) {
        d->CtxSetCurrent(NULL);
        error = rt_error(d->DevicePrimaryCtxReset(handle));
        primary[device] = NULL;
    }
    pthread_mutex_unlock(&primaries);
    rt_forget_errors();
    return error;
}

static cudaError_t set_flags(const struct rt_driver *d, unsigned flags)
{
    CUdevice handle;
    cudaError_t error = rt_error(d->DeviceGet(&handle, rt_current_device()));
    return error ? error : rt_error(d->DevicePrimaryCtxSetFlags(handle, flags));
}

static cudaError_t get_flags(const struct rt_driver *d, unsigned *flags)
{
    CUdevice handle;
    int active;
    cudaError_t error = rt_error(d->DeviceGet(&handle, rt_current_device()));
    return error ? error : rt_error(d->DevicePrimaryCtxGetState(handle, flags, &active));
}

/* The device's context is made, with the flags if `flags` says that they count, and does not become current. */
static cudaError_t init_device(const struct rt_driver *d, int device, unsigned device_flags, unsigned flags)
{
    enum { FLAGS_COUNT = 1 };
    CUcontext context;
    CUdevice handle;
    cudaError_t error = rt_check_device(device);
    if (!error && (flags & FLAGS_COUNT)) {
        error = rt_error(d->DeviceGet(&handle, device));
        if (!error)
            error = rt_error(d->DevicePrimaryCtxSetFlags(handle, device_flags));
    }
    return error ? error : rt_primary_context(device, &context);
}

RT_CALL0(cudaSetDevice, (int device), ((void)d, set_device(device)))
RT_CALL0(cudaInitDevice, (int device, unsigned device_flags, unsigned flags), init_device(d, device, device_flags, flags))
RT_CALL0(cudaGetDevice, (int *device), ((void)d, get_device(device)))
RT_CALL0(cudaDeviceReset, (void), reset(d))
RT_CALL0(cudaSetDeviceFlags, (unsigned flags), set_flags(d, flags))
RT_CALL0(cudaGetDeviceFlags, (unsigned *flags), get_flags(d, flags))
RT_CALL(cudaDeviceSynchronize, (void), RT_PASS(CtxSynchronize))
RT_CALL(cudaDeviceSetLimit, (int limit, size_t value), RT_PASS(CtxSetLimit, (CUlimit)limit, value))
RT_CALL(cudaDeviceGetLimit, (size_t *value, int limit), RT_PASS(CtxGetLimit, value, (CUlimit)limit))
RT_CALL(cudaDeviceSetCacheConfig, (int config), RT_PASS(CtxSetCacheConfig, config))
RT_CALL(cudaDeviceGetCacheConfig, (int *config), RT_PASS(CtxGetCacheConfig, config))
RT_CALL(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), RT_PASS(CtxGetStreamPriorityRange, least, greatest))
RT_CALL(cudaCtxResetPersistingL2Cache, (void), RT_PASS(CtxResetPersistingL2Cache))
#if NVS_CUDART_MAJOR == 12
RT_CALL(cudaThreadSynchronize, (void), RT_PASS(CtxSynchronize))
#endif
