/* Copies of consecutive bytes, and what all copies share; arrays and pitched memory are in copy_shaped.c. Each becomes rows and slices (struct sim_copy) and goes into a stream; bytes
 * are really moved, since simulated memory is host memory. */
#include "driver/stream/copy.h"

#include <stdlib.h>
#include <string.h>

#define STAGED_BYTES 65536u

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
bool sim_copy_is_known_device(uint64_t address, uint64_t bytes)
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

uint32_t sim_copy_direction(bool from_device, bool to_device)
{
    return from_device ? (to_device ? SIM_TRACE_DTOD : SIM_TRACE_DTOH) : (to_device ? SIM_TRACE_HTOD : SIM_TRACE_HTOH);
}

static struct sim_copy flat(uint64_t to, uint64_t from, uint64_t bytes, uint32_t direction)
{
    return (struct sim_copy){.to = {.base = (char *)(uintptr_t)to, .pitch = bytes, .height = 1},
                             .from = {.base = (char *)(uintptr_t)from, .pitch = bytes, .height = 1},
                             .width = bytes, .rows = 1, .slices = 1, .direction = direction};
}

CUresult sim_copy_submit(CUstream handle, bool per_thread, const struct sim_copy *copy, bool wait)
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
    if (copy->direction == SIM_TRACE_DTOD || stream->capture != NULL || sim_range_find(SIM_HOST_RANGES, ADDRESS(host), &range))
        return sim_copy_submit(handle, per_thread, copy, false);
    if (copy->direction != SIM_TRACE_HTOD || copy->width > STAGED_BYTES || (staged.staging = malloc(copy->width)) == NULL) {
        struct sim_op op = {.kind = SIM_OP_COPY};
        op.u.copy = *copy;
        return sim_submit_wait(stream, &op);
    }
    memcpy(staged.staging, copy->from.base, copy->width);
    staged.from.base = staged.staging;
    CUresult result = sim_copy_submit(handle, per_thread, &staged, false);
    if (result != CUDA_SUCCESS)
        free(staged.staging);
    return result;
}

CUresult sim_copy_linear(uint64_t to, int to_kind, uint64_t from, int from_kind, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    CUcontext context;
    unsigned card;
    SIM_TRY(sim_current(&context));
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (to == 0 || from == 0 || (to_kind == SIM_COPY_DEVICE && !sim_copy_is_known_device(to, bytes)) || (from_kind == SIM_COPY_DEVICE && !sim_copy_is_known_device(from, bytes)))
        return CUDA_ERROR_INVALID_VALUE;
    bool to_device = to_kind == SIM_COPY_DEVICE || (to_kind == SIM_COPY_ANY && sim_is_device_address(to, &card));
    bool from_device = from_kind == SIM_COPY_DEVICE || (from_kind == SIM_COPY_ANY && sim_is_device_address(from, &card));
    struct sim_copy copy = flat(to, from, bytes, sim_copy_direction(from_device, to_device));
    return wait ? sim_copy_submit(stream, per_thread, &copy, true) : put_pageable(stream, per_thread, &copy);
}

#define SYNC(name, params, to, to_kind, from, from_kind) \
    CUresult name params { return sim_copy_linear(ADDRESS(to), to_kind, ADDRESS(from), from_kind, bytes, NULL, false, true); } \
    CUresult name##_ptds params { return sim_copy_linear(ADDRESS(to), to_kind, ADDRESS(from), from_kind, bytes, NULL, true, true); }
#define ASYNC(name, params, to, to_kind, from, from_kind) \
    CUresult name params { return sim_copy_linear(ADDRESS(to), to_kind, ADDRESS(from), from_kind, bytes, stream, false, false); } \
    CUresult name##_ptsz params { return sim_copy_linear(ADDRESS(to), to_kind, ADDRESS(from), from_kind, bytes, stream, true, false); }

SYNC(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, SIM_COPY_ANY, from, SIM_COPY_ANY)
SYNC(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes), to, SIM_COPY_DEVICE, from, SIM_COPY_HOST)
SYNC(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes), to, SIM_COPY_HOST, from, SIM_COPY_DEVICE)
SYNC(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes), to, SIM_COPY_DEVICE, from, SIM_COPY_DEVICE)
ASYNC(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, SIM_COPY_ANY, from, SIM_COPY_ANY)
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), to, SIM_COPY_DEVICE, from, SIM_COPY_HOST)
ASYNC(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream), to, SIM_COPY_HOST, from, SIM_COPY_DEVICE)
ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), to, SIM_COPY_DEVICE, from, SIM_COPY_DEVICE)

static CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream, bool per_thread, bool wait)
{
    SIM_ENTER();
    if (!sim_is(to_context, SIM_CONTEXT) || !sim_is(from_context, SIM_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    return sim_copy_linear(to, SIM_COPY_DEVICE, from, SIM_COPY_DEVICE, bytes, stream, per_thread, wait);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) { return peer(to, tc, from, fc, bytes, NULL, false, true); }
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes) { return peer(to, tc, from, fc, bytes, NULL, true, true); }
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream stream) { return peer(to, tc, from, fc, bytes, stream, false, false); }
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t bytes, CUstream stream) { return peer(to, tc, from, fc, bytes, stream, true, false); }

static CUresult batch(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, size_t *failed, CUstream stream, bool per_thread)
{
    SIM_ENTER();
    if (count == 0 || to == NULL || from == NULL || sizes == NULL || stream == NULL || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUresult result = sim_copy_linear(to[i], SIM_COPY_ANY, from[i], SIM_COPY_ANY, sizes[i], stream, per_thread, false);
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
