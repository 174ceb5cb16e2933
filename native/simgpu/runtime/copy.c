/* Copies and sets. The direction that the caller names picks the driver function, as in the real runtime: a wrong
 * direction is an error here although the simulated memory could be copied.
 */
#include <stdint.h>
#include <string.h>

#include "runtime/runtime.h"

static cudaError_t copy(const struct rt_driver *d, void *to, const void *from, size_t count, int kind)
{
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_error(d->MemcpyHtoD(rt_address(to), from, count));
    case cudaMemcpyDeviceToHost:
        return rt_error(d->MemcpyDtoH(to, rt_address(from), count));
    case cudaMemcpyDeviceToDevice:
        return rt_error(d->MemcpyDtoD(rt_address(to), rt_address(from), count));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_error(d->Memcpy(rt_address(to), rt_address(from), count));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(const struct rt_driver *d, void *to, const void *from, size_t count, int kind, cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_error(d->MemcpyHtoDAsync(rt_address(to), from, count, stream));
    case cudaMemcpyDeviceToHost:
        return rt_error(d->MemcpyDtoHAsync(to, rt_address(from), count, stream));
    case cudaMemcpyDeviceToDevice:
        return rt_error(d->MemcpyDtoDAsync(rt_address(to), rt_address(from), count, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return rt_error(d->MemcpyAsync(rt_address(to), rt_address(from), count, stream));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

/* Which side is host and which device, from the direction: unified means "look at the address". */
static cudaError_t sides(int kind, CUmemorytype *to, CUmemorytype *from)
{
    static const CUmemorytype table[][2] = {
        [cudaMemcpyHostToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
        [cudaMemcpyHostToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
        [cudaMemcpyDeviceToHost] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDeviceToDevice] = {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
        [cudaMemcpyDefault] = {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED},
    };
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    *to = table[kind][0];
    *from = table[kind][1];
    return cudaSuccess;
}

struct plane {
    const void *at;
    size_t pitch;
};

static cudaError_t plan_2d(CUDA_MEMCPY2D *plan, struct plane to, struct plane from, size_t width, size_t rows, int kind)
{
    memset(plan, 0, sizeof *plan);
    cudaError_t error = sides(kind, &plan->dstMemoryType, &plan->srcMemoryType);
    if (error)
        return error;
    if (width > to.pitch || width > from.pitch)
        return cudaErrorInvalidPitchValue;
    plan->srcHost = from.at;
    plan->srcDevice = rt_address(from.at);
    plan->srcPitch = from.pitch;
    plan->dstHost = (void *)to.at;
    plan->dstDevice = rt_address(to.at);
    plan->dstPitch = to.pitch;
    plan->WidthInBytes = width;
    plan->Height = rows;
    return cudaSuccess;
}

static cudaError_t copy_2d(const struct rt_driver *d, struct plane to, struct plane from, size_t width, size_t rows, int kind)
{
    CUDA_MEMCPY2D plan;
    cudaError_t error = plan_2d(&plan, to, from, width, rows, kind);
    if (error || width == 0 || rows == 0)
        return error;
    return rt_error(d->Memcpy2DUnaligned(&plan));
}

static cudaError_t copy_2d_async(const struct rt_driver *d, struct plane to, struct plane from, size_t width, size_t rows, int kind,
                                 cudaStream_t stream)
{
    CUDA_MEMCPY2D plan;
    cudaError_t error = plan_2d(&plan, to, from, width, rows, kind);
    if (error || width == 0 || rows == 0)
        return error;
    return rt_error(d->Memcpy2DAsync(&plan, stream));
}

static cudaError_t copy_peer(const struct rt_driver *d, void *to, int to_device, const void *from, int from_device, size_t count,
                             const cudaStream_t *stream)
{
    CUcontext a, b;
    cudaError_t error = rt_check_device(to_device);
    if (!error)
        error = rt_check_device(from_device);
    if (!error)
        error = rt_primary_context(to_device, &a);
    if (!error)
        error = rt_primary_context(from_device, &b);
    if (error || count == 0)
        return error;
    if (stream == NULL)
        return rt_error(d->MemcpyPeer(rt_address(to), a, rt_address(from), b, count));
    return rt_error(d->MemcpyPeerAsync(rt_address(to), a, rt_address(from), b, count, *stream));
}

static cudaError_t symbol_at(const void *symbol, size_t offset, size_t count, char **at)
{
    CUdeviceptr address;
    size_t bytes;
    cudaError_t error = rt_symbol_of(symbol, &address, &bytes);
    if (error)
        return error;
    if (offset > bytes || count > bytes - offset)
        return cudaErrorInvalidValue;
    *at = (char *)(uintptr_t)address + offset;
    return cudaSuccess;
}

static cudaError_t to_symbol(const struct rt_driver *d, const void *symbol, const void *from, size_t count, size_t offset, int kind,
                             const cudaStream_t *stream)
{
    char *at;
    cudaError_t error = symbol_at(symbol, offset, count, &at);
    if (error)
        return error;
    return stream ? copy_async(d, at, from, count, kind, *stream) : copy(d, at, from, count, kind);
}

static cudaError_t from_symbol(const struct rt_driver *d, void *to, const void *symbol, size_t count, size_t offset, int kind,
                               const cudaStream_t *stream)
{
    char *at;
    cudaError_t error = symbol_at(symbol, offset, count, &at);
    if (error)
        return error;
    return stream ? copy_async(d, to, at, count, kind, *stream) : copy(d, to, at, count, kind);
}

#define PLANE(pointer, pitch) ((struct plane){pointer, pitch})

RT_CALL2(cudaMemcpy, _ptds, (void *to, const void *from, size_t count, int kind), copy(d, to, from, count, kind))
RT_CALL2(cudaMemcpyAsync, _ptsz, (void *to, const void *from, size_t count, int kind, cudaStream_t stream),
         copy_async(d, to, from, count, kind, stream))
RT_CALL2(cudaMemcpy2D, _ptds, (void *to, size_t tp, const void *from, size_t fp, size_t width, size_t rows, int kind),
         copy_2d(d, PLANE(to, tp), PLANE(from, fp), width, rows, kind))
RT_CALL2(cudaMemcpy2DAsync, _ptsz,
         (void *to, size_t tp, const void *from, size_t fp, size_t width, size_t rows, int kind, cudaStream_t stream),
         copy_2d_async(d, PLANE(to, tp), PLANE(from, fp), width, rows, kind, stream))
RT_CALL(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t count),
        copy_peer(d, to, to_device, from, from_device, count, NULL))
RT_CALL(cudaMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t count, cudaStream_t stream),
         copy_peer(d, to, to_device, from, from_device, count, &stream))
RT_CALL2(cudaMemcpyToSymbol, _ptds, (const void *symbol, const void *from, size_t count, size_t offset, int kind),
         to_symbol(d, symbol, from, count, offset, kind, NULL))
RT_CALL2(cudaMemcpyFromSymbol, _ptds, (void *to, const void *symbol, size_t count, size_t offset, int kind),
         from_symbol(d, to, symbol, count, offset, kind, NULL))
RT_CALL2(cudaMemcpyToSymbolAsync, _ptsz,
         (const void *symbol, const void *from, size_t count, size_t offset, int kind, cudaStream_t stream),
         to_symbol(d, symbol, from, count, offset, kind, &stream))
RT_CALL2(cudaMemcpyFromSymbolAsync, _ptsz,
         (void *to, const void *symbol, size_t count, size_t offset, int kind, cudaStream_t stream),
         from_symbol(d, to, symbol, count, offset, kind, &stream))
RT_CALL2(cudaMemset, _ptds, (void *at, int value, size_t count),
         (count == 0 ? cudaSuccess : RT_PASS(MemsetD8, rt_address(at), (unsigned char)value, count)))
RT_CALL2(cudaMemsetAsync, _ptsz, (void *at, int value, size_t count, cudaStream_t stream),
         (count == 0 ? cudaSuccess : RT_PASS(MemsetD8Async, rt_address(at), (unsigned char)value, count, stream)))
RT_CALL2(cudaMemset2D, _ptds, (void *at, size_t pitch, int value, size_t width, size_t rows),
         (width == 0 || rows == 0 ? cudaSuccess
                                  : RT_PASS(MemsetD2D8, rt_address(at), pitch, (unsigned char)value, width, rows)))
RT_CALL2(cudaMemset2DAsync, _ptsz, (void *at, size_t pitch, int value, size_t width, size_t rows, cudaStream_t stream),
         (width == 0 || rows == 0 ? cudaSuccess
                                  : RT_PASS(MemsetD2D8Async, rt_address(at), pitch, (unsigned char)value, width, rows, stream)))
