/* Arrays and copies in three dimensions. A runtime array handle is the driver's; only its description differs: bits per
 * channel and a kind here, one format and a channel count there.
 */
#include <stdint.h>
#include <string.h>

#include "runtime/runtime.h"

enum { SIGNED, UNSIGNED, FLOAT };

static const struct {
    int bits, kind;
    CUarray_format format;
} formats[] = {
    {8, UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT8},   {16, UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT16},
    {32, UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT32}, {8, SIGNED, CU_AD_FORMAT_SIGNED_INT8},
    {16, SIGNED, CU_AD_FORMAT_SIGNED_INT16},     {32, SIGNED, CU_AD_FORMAT_SIGNED_INT32},
    {16, FLOAT, CU_AD_FORMAT_HALF},              {32, FLOAT, CU_AD_FORMAT_FLOAT},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static cudaError_t describe(CUDA_ARRAY3D_DESCRIPTOR *out, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                            unsigned flags)
{
    if (desc == NULL)
        return cudaErrorInvalidValue;
    int channels = (desc->x > 0) + (desc->y > 0) + (desc->z > 0) + (desc->w > 0);
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].bits == desc->x && formats[i].kind == desc->f && (channels == 1 || channels == 2 || channels == 4)) {
            *out = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                             .Height = extent.height,
                                             .Depth = extent.depth,
                                             .Format = formats[i].format,
                                             .NumChannels = (unsigned)channels,
                                             .Flags = flags};
            return cudaSuccess;
        }
    return cudaErrorInvalidChannelDescriptor;
}

static cudaError_t create(const struct rt_driver *d, cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                          struct cudaExtent extent, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR what;
    CUarray handle = NULL;
    cudaError_t error = array == NULL ? cudaErrorInvalidValue : describe(&what, desc, extent, flags);
    if (!error)
        error = rt_error(d->Array3DCreate(&handle, &what));
    if (!error)
        *array = (cudaArray_t)handle;
    return error;
}

static int element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *what)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == what->Format)
            return formats[i].bits / 8 * (int)what->NumChannels;
    return 1;
}

static cudaError_t channel_of(const CUDA_ARRAY3D_DESCRIPTOR *what, struct cudaChannelFormatDesc *out)
{
    for (int i = 0; i < FORMATS; i++)
        if (formats[i].format == what->Format) {
            int bits = formats[i].bits;
            unsigned n = what->NumChannels;
            *out = (struct cudaChannelFormatDesc){bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 3 ? bits : 0, formats[i].kind};
            return cudaSuccess;
        }
    return cudaErrorInvalidChannelDescriptor;
}

static cudaError_t info(const struct rt_driver *d, struct cudaChannelFormatDesc *desc, struct cudaExtent *extent, unsigned *flags,
                        cudaArray_const_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR what;
    cudaError_t error = rt_error(d->Array3DGetDescriptor(&what, (CUarray)array));
    if (error)
        return error;
    if (extent != NULL)
        *extent = (struct cudaExtent){what.Width, what.Height, what.Depth};
    if (flags != NULL)
        *flags = what.Flags;
    return desc == NULL ? cudaSuccess : channel_of(&what, desc);
}

/* One side of a copy: an array, or pitched memory on the side that the direction names. */
static int side_type(cudaArray_t array, int kind, int is_destination)
{
    if (array != NULL)
        return CU_MEMORYTYPE_ARRAY;
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    int device = is_destination ? kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice
                                : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

/* Widths count elements when an array takes part, bytes when none does; the driver always counts bytes. */
static cudaError_t element_size(const struct cudaMemcpy3DParms *p, size_t *bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR what;
    CUarray array = (CUarray)(p->dstArray ? p->dstArray : p->srcArray);
    *bytes = 1;
    if (array == NULL)
        return cudaSuccess;
    cudaError_t error = rt_error(rt_legacy.Array3DGetDescriptor(&what, array));
    if (!error)
        *bytes = (size_t)element_bytes(&what);
    return error;
}

cudaError_t rt_plan_3d(CUDA_MEMCPY3D *plan, const struct cudaMemcpy3DParms *p)
{
    size_t element;
    cudaError_t error = p == NULL ? cudaErrorInvalidValue : element_size(p, &element);
    if (error)
        return error;
    if (p->kind < cudaMemcpyHostToHost || p->kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    *plan = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcPos.x * (p->srcArray ? element : 1),
        .srcY = p->srcPos.y,
        .srcZ = p->srcPos.z,
        .srcMemoryType = (CUmemorytype)side_type(p->srcArray, p->kind, 0),
        .srcHost = p->srcPtr.ptr,
        .srcDevice = rt_address(p->srcPtr.ptr),
        .srcArray = (CUarray)p->srcArray,
        .srcPitch = p->srcPtr.pitch,
        .srcHeight = p->srcPtr.ysize,
        .dstXInBytes = p->dstPos.x * (p->dstArray ? element : 1),
        .dstY = p->dstPos.y,
        .dstZ = p->dstPos.z,
        .dstMemoryType = (CUmemorytype)side_type(p->dstArray, p->kind, 1),
        .dstHost = p->dstPtr.ptr,
        .dstDevice = rt_address(p->dstPtr.ptr),
        .dstArray = (CUarray)p->dstArray,
        .dstPitch = p->dstPtr.pitch,
        .dstHeight = p->dstPtr.ysize,
        .WidthInBytes = p->extent.width * element,
        .Height = p->extent.height,
        .Depth = p->extent.depth,
    };
    return cudaSuccess;
}

static cudaError_t copy_3d(const struct rt_driver *d, const struct cudaMemcpy3DParms *p, const cudaStream_t *stream)
{
    CUDA_MEMCPY3D plan;
    cudaError_t error = rt_plan_3d(&plan, p);
    if (error)
        return error;
    return rt_error(stream ? d->Memcpy3DAsync(&plan, *stream) : d->Memcpy3D(&plan));
}

/* Rows of bytes into or out of an array. */
static cudaError_t copy_rows(const struct rt_driver *d, CUDA_MEMCPY2D plan, size_t width, size_t rows)
{
    plan.WidthInBytes = width;
    plan.Height = rows;
    return rt_error(d->Memcpy2DUnaligned(&plan));
}

#define ROWS_SIDE(prefix, kind, is_destination, pointer, pitch)                                                         \
    .prefix##MemoryType = (CUmemorytype)side_type(NULL, kind, is_destination), .prefix##Host = (void *)(pointer),      \
    .prefix##Device = rt_address(pointer), .prefix##Pitch = pitch

RT_CALL(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height, unsigned flags),
        create(d, array, desc, (struct cudaExtent){width, height, 0}, flags))
RT_CALL(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent, unsigned flags),
        create(d, array, desc, extent, flags))
RT_CALL(cudaFreeArray, (cudaArray_t array), (array == NULL ? cudaSuccess : RT_PASS(ArrayDestroy, (CUarray)array)))
RT_CALL(cudaArrayGetInfo, (struct cudaChannelFormatDesc * desc, struct cudaExtent *extent, unsigned *flags, cudaArray_t array),
        info(d, desc, extent, flags, array))
RT_CALL(cudaGetChannelDesc, (struct cudaChannelFormatDesc * desc, cudaArray_const_t array), info(d, desc, NULL, NULL, array))
RT_CALL2(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *params), copy_3d(d, params, NULL))
RT_CALL2(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *params, cudaStream_t stream), copy_3d(d, params, &stream))
RT_CALL2(cudaMemcpy2DToArray, _ptds,
         (cudaArray_t to, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t rows, int kind),
         copy_rows(d,
                   (CUDA_MEMCPY2D){.dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                   .dstArray = (CUarray)to,
                                   .dstXInBytes = x,
                                   .dstY = y,
                                   ROWS_SIDE(src, kind, 0, from, pitch)},
                   width, rows))
RT_CALL2(cudaMemcpy2DFromArray, _ptds,
         (void *to, size_t pitch, cudaArray_const_t from, size_t x, size_t y, size_t width, size_t rows, int kind),
         copy_rows(d,
                   (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                                   .srcArray = (CUarray)from,
                                   .srcXInBytes = x,
                                   .srcY = y,
                                   ROWS_SIDE(dst, kind, 1, to, pitch)},
                   width, rows))

RT_API struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int f);
RT_API struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
