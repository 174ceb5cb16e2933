/* Copies to and from arrays, and of two and three dimensions: each is brought into rows and slices (struct sim_copy). */
#include "driver/stream/copy.h"

#include <string.h>

/* ---- arrays as bytes ---- */

static CUresult array_at(CUarray array, size_t offset, size_t bytes, uint64_t *address)
{
    SIM_ENTER();
    if (!sim_is(array, SIM_ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (offset + bytes > array->pitch * array->rows)
        return CUDA_ERROR_INVALID_VALUE;
    *address = array->memory->base + array->offset + offset;
    return CUDA_SUCCESS;
}

static CUresult to_array(CUarray array, size_t offset, uint64_t from, int kind, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    uint64_t to;
    SIM_TRY(array_at(array, offset, bytes, &to));
    return sim_copy_linear(to, SIM_COPY_DEVICE, from, kind, bytes, stream, per_thread, wait);
}

static CUresult from_array(uint64_t to, int kind, CUarray array, size_t offset, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    uint64_t from;
    SIM_TRY(array_at(array, offset, bytes, &from));
    return sim_copy_linear(to, kind, from, SIM_COPY_DEVICE, bytes, stream, per_thread, wait);
}

static CUresult between_arrays(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes, bool per_thread)
{
    uint64_t source;
    SIM_TRY(array_at(from, from_offset, bytes, &source));
    return to_array(to, to_offset, source, SIM_COPY_DEVICE, bytes, NULL, per_thread, true);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) { return to_array(to, offset, from, SIM_COPY_DEVICE, bytes, NULL, false, true); }
CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) { return to_array(to, offset, from, SIM_COPY_DEVICE, bytes, NULL, true, true); }
CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes) { return to_array(to, offset, ADDRESS(from), SIM_COPY_HOST, bytes, NULL, false, true); }
CUresult cuMemcpyHtoA_v2_ptds(CUarray to, size_t offset, const void *from, size_t bytes) { return to_array(to, offset, ADDRESS(from), SIM_COPY_HOST, bytes, NULL, true, true); }
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream) { return to_array(to, offset, ADDRESS(from), SIM_COPY_HOST, bytes, stream, false, false); }
CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream) { return to_array(to, offset, ADDRESS(from), SIM_COPY_HOST, bytes, stream, true, false); }
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) { return from_array(to, SIM_COPY_DEVICE, from, offset, bytes, NULL, false, true); }
CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) { return from_array(to, SIM_COPY_DEVICE, from, offset, bytes, NULL, true, true); }
CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes) { return from_array(ADDRESS(to), SIM_COPY_HOST, from, offset, bytes, NULL, false, true); }
CUresult cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t offset, size_t bytes) { return from_array(ADDRESS(to), SIM_COPY_HOST, from, offset, bytes, NULL, true, true); }
CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream) { return from_array(ADDRESS(to), SIM_COPY_HOST, from, offset, bytes, stream, false, false); }
CUresult cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream) { return from_array(ADDRESS(to), SIM_COPY_HOST, from, offset, bytes, stream, true, false); }
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) { return between_arrays(to, to_offset, from, from_offset, bytes, false); }
CUresult cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes) { return between_arrays(to, to_offset, from, from_offset, bytes, true); }

/* ---- two and three dimensions ---- */

struct side { size_t x, y, z; CUmemorytype type; uint64_t host; CUdeviceptr device; CUarray array; size_t pitch, height; };

static CUresult plane_of(const struct side *side, size_t width, size_t rows, size_t slices, struct sim_plane *plane, bool *device)
{
    unsigned card;
    uint64_t base = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;
    plane->pitch = side->pitch != 0 ? side->pitch : side->x + width;
    plane->height = side->height != 0 ? side->height : side->y + rows;
    *device = side->type != CU_MEMORYTYPE_HOST;
    if (side->type == CU_MEMORYTYPE_ARRAY) {
        if (!sim_is(side->array, SIM_ARRAY))
            return CUDA_ERROR_INVALID_HANDLE;
        base = side->array->memory->base + side->array->offset;
        plane->pitch = side->array->pitch;
        plane->height = side->array->shape.Height > 0 ? side->array->shape.Height : 1;
        if (side->y + rows > plane->height || (side->z + slices) * plane->height > side->array->rows)
            return CUDA_ERROR_INVALID_VALUE;
    } else if (side->type == CU_MEMORYTYPE_UNIFIED) {
        *device = sim_is_device_address(base, &card);
    } else if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (base == 0 || side->x + width > plane->pitch)
        return CUDA_ERROR_INVALID_VALUE;
    base += (side->z * plane->height + side->y) * plane->pitch + side->x;
    plane->base = (char *)(uintptr_t)base;
    uint64_t bytes = ((slices - 1) * plane->height + rows - 1) * plane->pitch + width;
    return side->type == CU_MEMORYTYPE_DEVICE && !sim_copy_is_known_device(base, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_copy_3d(const CUDA_MEMCPY3D *d, struct sim_copy *copy)
{
    bool to_device, from_device;
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *copy = (struct sim_copy){.width = d->WidthInBytes, .rows = d->Height, .slices = d->Depth};
    if (d->WidthInBytes == 0 || d->Height == 0 || d->Depth == 0)
        return CUDA_SUCCESS;
    struct side to = {d->dstXInBytes, d->dstY, d->dstZ, d->dstMemoryType, ADDRESS(d->dstHost), d->dstDevice, d->dstArray, d->dstPitch, d->dstHeight};
    struct side from = {d->srcXInBytes, d->srcY, d->srcZ, d->srcMemoryType, ADDRESS(d->srcHost), d->srcDevice, d->srcArray, d->srcPitch, d->srcHeight};
    SIM_TRY(plane_of(&to, copy->width, copy->rows, copy->slices, &copy->to, &to_device));
    SIM_TRY(plane_of(&from, copy->width, copy->rows, copy->slices, &copy->from, &from_device));
    copy->direction = sim_copy_direction(from_device, to_device);
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *description, CUstream stream, bool per_thread, bool wait)
{
    CUcontext context;
    struct sim_copy copy;
    SIM_TRY(sim_current(&context));
    SIM_TRY(sim_copy_3d(description, &copy));
    return sim_copy_submit(stream, per_thread, &copy, wait);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *d, CUstream stream, bool per_thread, bool wait)
{
    SIM_ENTER();
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D full = {
        .srcXInBytes = d->srcXInBytes, .srcY = d->srcY, .srcMemoryType = d->srcMemoryType, .srcHost = d->srcHost,
        .srcDevice = d->srcDevice, .srcArray = d->srcArray, .srcPitch = d->srcPitch,
        .dstXInBytes = d->dstXInBytes, .dstY = d->dstY, .dstMemoryType = d->dstMemoryType, .dstHost = d->dstHost,
        .dstDevice = d->dstDevice, .dstArray = d->dstArray, .dstPitch = d->dstPitch,
        .WidthInBytes = d->WidthInBytes, .Height = d->Height, .Depth = 1};
    return copy_3d(&full, stream, per_thread, wait);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *d, CUstream stream, bool per_thread, bool wait)
{
    CUDA_MEMCPY3D plain;
    SIM_ENTER();
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&plain, d, sizeof plain); /* the two differ only in what stands in the reserved words */
    return copy_3d(&plain, stream, per_thread, wait);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, false, true); }
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, true, true); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, false, true); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *copy) { return copy_2d(copy, NULL, true, true); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) { return copy_2d(copy, stream, false, false); }
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *copy, CUstream stream) { return copy_2d(copy, stream, true, false); }
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *copy) { return copy_3d(copy, NULL, false, true); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *copy) { return copy_3d(copy, NULL, true, true); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *copy, CUstream stream) { return copy_3d(copy, stream, false, false); }
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *copy, CUstream stream) { return copy_3d(copy, stream, true, false); }
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *copy) { return copy_3d_peer(copy, NULL, false, true); }
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *copy) { return copy_3d_peer(copy, NULL, true, true); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) { return copy_3d_peer(copy, stream, false, false); }
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *copy, CUstream stream) { return copy_3d_peer(copy, stream, true, false); }
