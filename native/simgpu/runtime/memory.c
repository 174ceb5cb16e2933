/* Memory: device, managed, host, pools, and what a pointer is. The runtime differs from the driver in small ways that
 * programs rely on: a request for nothing succeeds with NULL, and freeing NULL is fine (and makes the context).
 */
#include <stdint.h>

#include "runtime/runtime.h"

static cudaError_t allocate(const struct rt_driver *d, void **pointer, size_t size)
{
    CUdeviceptr address = 0;
    if (pointer == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = size == 0 ? cudaSuccess : rt_error(d->MemAlloc(&address, size));
    *pointer = (void *)(uintptr_t)address;
    return error;
}

static cudaError_t allocate_managed(const struct rt_driver *d, void **pointer, size_t size, unsigned flags)
{
    CUdeviceptr address = 0;
    if (pointer == NULL || size == 0)
        return cudaErrorInvalidValue;
    cudaError_t error = rt_error(d->MemAllocManaged(&address, size, flags));
    *pointer = (void *)(uintptr_t)address;
    return error;
}

static cudaError_t allocate_pitch(const struct rt_driver *d, void **pointer, size_t *pitch, size_t width, size_t rows)
{
    enum { ELEMENT_BYTES = 4 };
    CUdeviceptr address = 0;
    if (pointer == NULL || pitch == NULL)
        return cudaErrorInvalidValue;
    *pitch = 0;
    cudaError_t error = width == 0 || rows == 0 ? cudaSuccess : rt_error(d->MemAllocPitch(&address, pitch, width, rows, ELEMENT_BYTES));
    *pointer = (void *)(uintptr_t)address;
    return error;
}

static cudaError_t allocate_3d(const struct rt_driver *d, struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    size_t rows;
    if (out == NULL || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return cudaErrorInvalidValue;
    out->xsize = extent.width;
    out->ysize = extent.height;
    return allocate_pitch(d, &out->ptr, &out->pitch, extent.width, rows);
}

static cudaError_t allocate_host(const struct rt_driver *d, void **pointer, size_t size, unsigned flags)
{
    if (pointer == NULL)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    return size == 0 ? cudaSuccess : rt_error(d->MemHostAlloc(pointer, size, flags));
}

static cudaError_t host_device_pointer(const struct rt_driver *d, void **pointer, void *host, unsigned flags)
{
    CUdeviceptr address = 0;
    if (pointer == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = rt_error(d->MemHostGetDevicePointer(&address, host, flags));
    *pointer = (void *)(uintptr_t)address;
    return error;
}

static int memory_type(unsigned type, unsigned managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    if (type == CU_MEMORYTYPE_HOST)
        return cudaMemoryTypeHost;
    return type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
}

/* Any pointer has an answer: memory that CUDA does not know is "unregistered", not an error. */
static cudaError_t describe(const struct rt_driver *d, struct cudaPointerAttributes *out, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int ordinal = -1;
    CUdeviceptr device = 0;
    void *host = NULL;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &ordinal, &device, &host};
    if (out == NULL)
        return cudaErrorInvalidValue;
    cudaError_t error = rt_error(d->PointerGetAttributes(sizeof which / sizeof which[0], which, values, rt_address(pointer)));
    if (error)
        return error;
    *out = (struct cudaPointerAttributes){.type = memory_type(type, managed), .device = ordinal};
    if (out->type == cudaMemoryTypeUnregistered) {
        out->device = -2; /* what the runtime says of memory that belongs to no device */
        out->hostPointer = (void *)pointer;
    } else {
        out->devicePointer = (void *)(uintptr_t)device;
        out->hostPointer = host;
    }
    return cudaSuccess;
}

static cudaError_t allocate_async(const struct rt_driver *d, void **pointer, size_t size, const cudaMemPool_t *pool, cudaStream_t stream)
{
    CUdeviceptr address = 0;
    CUresult result = CUDA_SUCCESS;
    if (pointer == NULL)
        return cudaErrorInvalidValue;
    if (size != 0)
        result = pool ? d->MemAllocFromPoolAsync(&address, size, *pool, stream) : d->MemAllocAsync(&address, size, stream);
    *pointer = (void *)(uintptr_t)address;
    return rt_error(result);
}

RT_CALL(cudaMalloc, (void **pointer, size_t size), allocate(d, pointer, size))
RT_CALL(cudaMallocManaged, (void **pointer, size_t size, unsigned flags), allocate_managed(d, pointer, size, flags))
RT_CALL(cudaMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t rows), allocate_pitch(d, pointer, pitch, width, rows))
RT_CALL(cudaMalloc3D, (struct cudaPitchedPtr * out, struct cudaExtent extent), allocate_3d(d, out, extent))
RT_CALL(cudaFree, (void *pointer), (pointer == NULL ? cudaSuccess : RT_PASS(MemFree, rt_address(pointer))))
RT_CALL(cudaMallocHost, (void **pointer, size_t size), allocate_host(d, pointer, size, 0))
RT_CALL(cudaHostAlloc, (void **pointer, size_t size, unsigned flags), allocate_host(d, pointer, size, flags))
RT_CALL(cudaFreeHost, (void *pointer), (pointer == NULL ? cudaSuccess : RT_PASS(MemFreeHost, pointer)))
RT_CALL(cudaHostRegister, (void *pointer, size_t size, unsigned flags), RT_PASS(MemHostRegister, pointer, size, flags))
RT_CALL(cudaHostUnregister, (void *pointer), RT_PASS(MemHostUnregister, pointer))
RT_CALL(cudaHostGetDevicePointer, (void **pointer, void *host, unsigned flags), host_device_pointer(d, pointer, host, flags))
RT_CALL(cudaHostGetFlags, (unsigned *flags, void *host), RT_PASS(MemHostGetFlags, flags, host))
RT_CALL(cudaMemGetInfo, (size_t *free_bytes, size_t *total_bytes), RT_PASS(MemGetInfo, free_bytes, total_bytes))
RT_CALL(cudaPointerGetAttributes, (struct cudaPointerAttributes * out, const void *pointer), describe(d, out, pointer))
RT_CALL(cudaMemRangeGetAttribute, (void *data, size_t size, int which, const void *pointer, size_t count),
        RT_PASS(MemRangeGetAttribute, data, size, which, rt_address(pointer), count))
RT_CALL(cudaMemRangeGetAttributes, (void **data, size_t *sizes, int *which, size_t number, const void *pointer, size_t count),
        RT_PASS(MemRangeGetAttributes, data, sizes, (CUmem_range_attribute *)which, number, rt_address(pointer), count))
RT_CALL2(cudaMallocAsync, _ptsz, (void **pointer, size_t size, cudaStream_t stream), allocate_async(d, pointer, size, NULL, stream))
RT_CALL2(cudaMallocFromPoolAsync, _ptsz, (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
         allocate_async(d, pointer, size, &pool, stream))
RT_CALL2(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream),
         (pointer == NULL ? cudaSuccess : RT_PASS(MemFreeAsync, rt_address(pointer), stream)))
RT_CALL(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *props),
        RT_PASS(MemPoolCreate, pool, (const CUmemPoolProps *)props))
RT_CALL(cudaMemPoolDestroy, (cudaMemPool_t pool), RT_PASS(MemPoolDestroy, pool))
RT_CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), RT_PASS(MemPoolTrimTo, pool, keep))
RT_CALL(cudaMemPoolSetAttribute, (cudaMemPool_t pool, int which, void *value),
        RT_PASS(MemPoolSetAttribute, pool, which, value))
RT_CALL(cudaMemPoolGetAttribute, (cudaMemPool_t pool, int which, void *value),
        RT_PASS(MemPoolGetAttribute, pool, which, value))
RT_CALL(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *map, size_t count),
        RT_PASS(MemPoolSetAccess, pool, (const CUmemAccessDesc *)map, count))
RT_CALL(cudaMemPoolGetAccess, (int *flags, cudaMemPool_t pool, struct cudaMemLocation *location),
        RT_PASS(MemPoolGetAccess, flags, pool, (CUmemLocation *)location))
RT_CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *pointer), RT_PASS(IpcGetMemHandle, handle, rt_address(pointer)))
RT_CALL(cudaIpcOpenMemHandle, (void **pointer, cudaIpcMemHandle_t handle, unsigned flags),
        RT_PASS(IpcOpenMemHandle, (CUdeviceptr *)pointer, handle, flags))
RT_CALL(cudaIpcCloseMemHandle, (void *pointer), RT_PASS(IpcCloseMemHandle, rt_address(pointer)))

/* CUDA 13 took over the names for the forms that speak of locations; the device number says the same for ours. */
#if NVS_CUDART_MAJOR == 12
RT_CALL(cudaMemAdvise, (const void *pointer, size_t count, int advice, int device),
        RT_PASS(MemAdvise, rt_address(pointer), count, (CUmem_advise)advice, (CUdevice)device))
RT_CALL2(cudaMemPrefetchAsync, _ptsz, (const void *pointer, size_t count, int device, cudaStream_t stream),
         RT_PASS(MemPrefetchAsync, rt_address(pointer), count, (CUdevice)device, stream))
#else
static CUdevice place(struct cudaMemLocation location)
{
    return location.type == 1 ? (CUdevice)location.id : (CUdevice)cudaCpuDeviceId;
}

RT_CALL(cudaMemAdvise, (const void *pointer, size_t count, int advice, struct cudaMemLocation location),
        RT_PASS(MemAdvise, rt_address(pointer), count, (CUmem_advise)advice, place(location)))
RT_CALL2(cudaMemPrefetchAsync, _ptsz,
         (const void *pointer, size_t count, struct cudaMemLocation location, unsigned flags, cudaStream_t stream),
         (flags ? cudaErrorInvalidValue : RT_PASS(MemPrefetchAsync, rt_address(pointer), count, place(location), stream)))
#endif
