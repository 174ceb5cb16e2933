/* Copies and memsets in all their forms. Each becomes rows and slices (struct sim_copy) and goes into a stream; bytes
 * are really moved, since simulated memory is host memory. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#define STAGED_BYTES 65536u
#define P(pointer) ((uint64_t)(uintptr_t)(pointer))

void sim_copy_run(const struct sim_copy *copy)
{
    bool flat = copy->to.pitch == copy->width && copy->from.pitch == copy->width;
    for (uint64_t slice = 0; slice < copy->slices; slice++) {
        char *to = copy->to.base + slice * copy->to.height * copy->to.pitch;
        const char *from = copy->from.base + slice * copy->from.height * copy->from.pitch;
        if (flat || copy->rows == 1) {
            memmove(to, from, copy->width * copy->rows);
            continue;
        }
        for (uint64_t row = 0; row < copy->rows; row++)
            memmove(to + row * copy->to.pitch, from + row * copy->from.pitch, copy->width);
    }
}

uint64_t sim_copy_cost_ns(const struct sim_copy *copy)
{
    double bytes = (double)copy->width * (double)copy->rows * (double)copy->slices;
    bool on_device = copy->direction == SIM_TRACE_DTOD;
    return sim_scaled(bytes / (on_device ? sim_config()->device_bandwidth : sim_config()->copy_bandwidth) * 1e9);
}

/* A device address must be known to the driver for the whole length. */
static bool known_device(uint64_t address, uint64_t bytes)
{
    struct sim_range range;
    if (sim_memory_range(address, bytes) != NULL)
        return true;
    if (sim_range_find(SIM_HOST_RANGES, address, &range))
        return bytes <= range.size - (address - range.base);
    while (sim_range_find(SIM_MAPPED_RANGES, address, &range)) {
        uint64_t here = range.size - (address - range.base);
        if (bytes <= here)
            return true;
        bytes -= here; /* mappings side by side make one range */
        address += here;
    }
    return false;
}

static uint32_t direction_of(bool from_device, bool to_device)
{
    return from_device ? (to_device ? SIM_TRACE_DTOD : SIM_TRACE_DTOH) : (to_device ? SIM_TRACE_HTOD : SIM_TRACE_HTOH);
}

static struct sim_copy flat(uint64_t to, uint64_t from, uint64_t bytes, uint32_t direction)
{
    return (struct sim_copy){.to = {.base = (char *)(uintptr_t)to, .pitch = bytes, .height = 1},
                             .from = {.base = (char *)(uintptr_t)from, .pitch = bytes, .height = 1},
                             .width = bytes, .rows = 1, .slices = 1, .direction = direction};
}

static CUresult put(CUstream handle, bool per_thread, const struct sim_copy *copy, bool wait)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (copy->width * copy->rows * copy->slices == 0)
        return CUDA_SUCCESS;
    if (wait)
        SIM_TRY(sim_capture_unsafe());
    struct sim_op op = {.kind = SIM_OP_COPY};
    op.u.copy = *copy;
    return wait ? sim_submit_wait(stream, &op) : sim_submit(stream, &op);
}

/* The caller may reuse ordinary host memory as soon as an asynchronous copy has returned: small sources are staged, the
 * rest is waited for. A graph takes the address itself. */
static CUresult put_pageable(CUstream handle, bool per_thread, const struct sim_copy *copy)
{
    CUstream stream;
    struct sim_range range;
    struct sim_copy staged = *copy;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    const char *host = copy->direction == SIM_TRACE_HTOD ? copy->from.base : copy->to.base;
    if (copy->direction == SIM_TRACE_DTOD || stream->capture != NULL || sim_range_find(SIM_HOST_RANGES, P(host), &range))
        return put(handle, per_thread, copy, false);
    if (copy->direction != SIM_TRACE_HTOD || copy->width > STAGED_BYTES || (staged.staging = malloc(copy->width)) == NULL) {
        struct sim_op op = {.kind = SIM_OP_COPY};
        op.u.copy = *copy;
        return sim_submit_wait(stream, &op);
    }
    memcpy(staged.staging, copy->from.base, copy->width);
    staged.from.base = staged.staging;
    CUresult result = put(handle, per_thread, &staged, false);
    if (result != CUDA_SUCCESS)
        free(staged.staging);
    return result;
}

enum { HOST, DEVICE, ANY };

static CUresult linear(uint64_t to, int to_kind, uint64_t from, int from_kind, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    CUcontext context;
    unsigned card;
    SIM_TRY(sim_current(&context));
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (to == 0 || from == 0 || (to_kind == DEVICE && !known_device(to, bytes)) || (from_kind == DEVICE && !known_device(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    bool to_device = to_kind == DEVICE || (to_kind == ANY && sim_is_device_address(to, &card));
    bool from_device = from_kind == DEVICE || (from_kind == ANY && sim_is_device_address(from, &card));
    struct sim_copy copy = flat(to, from, bytes, direction_of(from_device, to_device));
    return wait ? put(stream, per_thread, &copy, true) : put_pageable(stream, per_thread, &copy);
}

#define SYNC(name, params, to, to_kind, from, from_kind) \
    CUresult name params { return linear(P(to), to_kind, P(from), from_kind, bytes, NULL, false, true); } \
    CUresult name##_ptds params { return linear(P(to), to_kind, P(from), from_kind, bytes, NULL, true, true); }
#define ASYNC(name, params, to, to_kind, from, from_kind) \
    CUresult name params { return linear(P(to), to_kind, P(from), from_kind, bytes, stream, false, false); } \
    CUresult name##_ptsz params { return linear(P(to), to_kind, P(from), from_kind, bytes, stream, true, false); }

SYNC(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, ANY, from, ANY)
SYNC(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), to, DEVICE, from, HOST)
SYNC(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), to, HOST, from, DEVICE)
SYNC(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, DEVICE, from, DEVICE)
ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, ANY, from, ANY)
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), to, DEVICE, from, HOST)
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), to, HOST, from, DEVICE)
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, DEVICE, from, DEVICE)

static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    SIM_ENTER();
    if (!sim_is(to_context, SIM_CONTEXT) || !sim_is(from_context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return linear(to, DEVICE, from, DEVICE, bytes, stream, per_thread, wait);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) { return peer(to, tc, from, fc, bytes, NULL, false, true); }
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) { return peer(to, tc, from, fc, bytes, NULL, true, true); }
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream stream) { return peer(to, tc, from, fc, bytes, stream, false, false); }
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream stream) { return peer(to, tc, from, fc, bytes, stream, true, false); }

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
    return linear(to, DEVICE, from, kind, bytes, stream, per_thread, wait);
}

static CUresult from_array(uint64_t to, int kind, CUarray array, size_t offset, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    uint64_t from;
    SIM_TRY(array_at(array, offset, bytes, &from));
    return linear(to, kind, from, DEVICE, bytes, stream, per_thread, wait);
}

static CUresult between_arrays(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes, bool per_thread)
{
    uint64_t source;
    SIM_TRY(array_at(from, from_offset, bytes, &source));
    return to_array(to, to_offset, source, DEVICE, bytes, NULL, per_thread, true);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) { return to_array(to, offset, from, DEVICE, bytes, NULL, false, true); }
CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) { return to_array(to, offset, from, DEVICE, bytes, NULL, true, true); }
CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t bytes) { return to_array(to, offset, P(from), HOST, bytes, NULL, false, true); }
CUresult cuMemcpyHtoA_v2_ptds(CUarray to, size_t offset, const void *from, size_t bytes) { return to_array(to, offset, P(from), HOST, bytes, NULL, true, true); }
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream) { return to_array(to, offset, P(from), HOST, bytes, stream, false, false); }
CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream) { return to_array(to, offset, P(from), HOST, bytes, stream, true, false); }
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) { return from_array(to, DEVICE, from, offset, bytes, NULL, false, true); }
CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) { return from_array(to, DEVICE, from, offset, bytes, NULL, true, true); }
CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t bytes) { return from_array(P(to), HOST, from, offset, bytes, NULL, false, true); }
CUresult cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t offset, size_t bytes) { return from_array(P(to), HOST, from, offset, bytes, NULL, true, true); }
CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream) { return from_array(P(to), HOST, from, offset, bytes, stream, false, false); }
CUresult cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t offset, size_t bytes, CUstream stream) { return from_array(P(to), HOST, from, offset, bytes, stream, true, false); }
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
    return side->type == CU_MEMORYTYPE_DEVICE && !known_device(base, bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sim_copy_3d(const CUDA_MEMCPY3D *d, struct sim_copy *copy)
{
    bool to_device, from_device;
    if (d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *copy = (struct sim_copy){.width = d->WidthInBytes, .rows = d->Height, .slices = d->Depth};
    if (d->WidthInBytes == 0 || d->Height == 0 || d->Depth == 0)
        return CUDA_SUCCESS;
    struct side to = {d->dstXInBytes, d->dstY, d->dstZ, d->dstMemoryType, P(d->dstHost), d->dstDevice, d->dstArray, d->dstPitch, d->dstHeight};
    struct side from = {d->srcXInBytes, d->srcY, d->srcZ, d->srcMemoryType, P(d->srcHost), d->srcDevice, d->srcArray, d->srcPitch, d->srcHeight};
    SIM_TRY(plane_of(&to, copy->width, copy->rows, copy->slices, &copy->to, &to_device));
    SIM_TRY(plane_of(&from, copy->width, copy->rows, copy->slices, &copy->from, &from_device));
    copy->direction = direction_of(from_device, to_device);
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const CUDA_MEMCPY3D *description, CUstream stream, bool per_thread, bool wait)
{
    CUcontext context;
    struct sim_copy copy;
    SIM_TRY(sim_current(&context));
    SIM_TRY(sim_copy_3d(description, &copy));
    return put(stream, per_thread, &copy, wait);
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

static CUresult batch(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, size_t *failed, CUstream stream, bool per_thread)
{
    SIM_ENTER();
    if (count == 0 || to == NULL || from == NULL || sizes == NULL || stream == NULL || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = linear(to[i], ANY, from[i], ANY, sizes[i], stream, per_thread, false);
        if (result != CUDA_SUCCESS) {
            if (failed != NULL)
                *failed = i;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

#define BATCH(suffix, per_thread) \
    CUresult cuMemcpyBatchAsync##suffix(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, \
                                        size_t *indices, size_t attribute_count, size_t *failed, CUstream stream) \
    { (void)attributes; (void)indices; (void)attribute_count; return batch(to, from, sizes, count, failed, stream, per_thread); } \
    CUresult cuMemcpyBatchAsync_v2##suffix(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, \
                                           size_t *indices, size_t attribute_count, CUstream stream) \
    { (void)attributes; (void)indices; (void)attribute_count; return batch(to, from, sizes, count, NULL, stream, per_thread); }
BATCH(, false)
BATCH(_ptsz, true)
