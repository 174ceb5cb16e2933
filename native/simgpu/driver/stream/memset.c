/* Memsets. The synchronous ones wait, as is safe: CUDA leaves it open. */
#include "driver/driver.h"

static CUresult set(CUdeviceptr at, size_t pitch, unsigned value, unsigned element, size_t width, size_t rows, CUstream handle, bool per_thread, bool wait)
{
    CUstream stream;
    struct sim_range range;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (width == 0 || rows == 0)
        return CUDA_SUCCESS;
    uint64_t bytes = (rows - 1) * pitch + width * element;
    bool known = sim_memory_range(at, bytes) != NULL || sim_range_find(SIM_MAPPED_RANGES, at, &range)
                 || sim_range_find(SIM_HOST_RANGES, at, &range);
    if (!known || at % element != 0 || (rows > 1 && pitch < width * element))
        return CUDA_ERROR_INVALID_VALUE;
    if (wait)
        SIM_TRY(sim_capture_unsafe());
    struct sim_op op = {.kind = SIM_OP_MEMSET};
    op.u.memset.at = (char *)(uintptr_t)at;
    op.u.memset.pitch = pitch;
    op.u.memset.width = width;
    op.u.memset.rows = rows;
    op.u.memset.value = value;
    op.u.memset.element = element;
    return wait ? sim_submit_wait(stream, &op) : sim_submit(stream, &op);
}

#define FLAT(bits, type) \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count) { return set(at, count * (bits / 8), value, bits / 8, count, 1, NULL, false, true); } \
    CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr at, type value, size_t count) { return set(at, count * (bits / 8), value, bits / 8, count, 1, NULL, true, true); } \
    CUresult cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t count, CUstream stream) { return set(at, count * (bits / 8), value, bits / 8, count, 1, stream, false, false); } \
    CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr at, type value, size_t count, CUstream stream) { return set(at, count * (bits / 8), value, bits / 8, count, 1, stream, true, false); }
FLAT(8, unsigned char)
FLAT(16, unsigned short)
FLAT(32, unsigned int)

#define PITCHED(bits, type) \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height) { return set(at, pitch, value, bits / 8, width, height, NULL, false, true); } \
    CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height) { return set(at, pitch, value, bits / 8, width, height, NULL, true, true); } \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, CUstream stream) { return set(at, pitch, value, bits / 8, width, height, stream, false, false); } \
    CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, CUstream stream) { return set(at, pitch, value, bits / 8, width, height, stream, true, false); }
PITCHED(8, unsigned char)
PITCHED(16, unsigned short)
PITCHED(32, unsigned int)
