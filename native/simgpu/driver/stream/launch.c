/* Launches: kernels in their several forms, host functions; occupancy answers. */
#include "driver/driver.h"

#include <string.h>

/* The n-th 64-bit parameter of a kernel whose parameters we know (the sim_… ones). */
static bool parameter(unsigned index, void **params, void **extra, uint64_t *value)
{
    if (params != NULL) {
        if (params[index] == NULL)
            return false;
        memcpy(value, params[index], sizeof *value);
        return true;
    }
    const char *buffer = NULL;
    size_t size = 0;
    for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
    }
    if (buffer == NULL || size < (index + 1) * sizeof *value)
        return false;
    memcpy(value, buffer + index * sizeof *value, sizeof *value);
    return true;
}

static CUresult special_op(CUfunction function, void **params, void **extra, struct sim_op *op)
{
    uint64_t first, second;
    if (function->special == SIM_TRAP)
        return CUDA_SUCCESS;
    if (!parameter(0, params, extra, &first))
        return CUDA_ERROR_INVALID_VALUE;
    if (function->special == SIM_SPIN) {
        op->u.kernel.duration_ns = sim_scaled((double)first * 1e3);
        op->u.kernel.special = SIM_PLAIN; /* like any other from here on */
        return CUDA_SUCCESS;
    }
    if (!parameter(1, params, extra, &second))
        return CUDA_ERROR_INVALID_VALUE;
    op->u.kernel.touch = first;
    op->u.kernel.touch_bytes = second; /* for a flag: the value awaited */
    if (function->special == SIM_TOUCH)
        op->u.kernel.duration_ns = sim_scaled((double)second / sim_config()->device_bandwidth * 1e9);
    return CUDA_SUCCESS;
}

static bool are_keys_known(void **extra)
{
    for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2)
        if (extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER && extra[0] != CU_LAUNCH_PARAM_BUFFER_SIZE)
            return false;
    return true;
}

/* A zero anywhere makes the product zero; saturated so that large grids do not wrap. */
static unsigned product(unsigned x, unsigned y, unsigned z)
{
    uint64_t all = (uint64_t)x * y;
    all = all > UINT32_MAX ? UINT32_MAX : all;
    all *= z;
    return all > UINT32_MAX ? UINT32_MAX : (unsigned)all;
}

CUresult sim_kernel_op(const CUDA_KERNEL_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction function = p->func != NULL ? p->func : (CUfunction)p->kern;
    unsigned threads = product(p->blockDimX, p->blockDimY, p->blockDimZ);
    if (!sim_is(function, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (threads == 0 || threads > 1024 || product(p->gridDimX, p->gridDimY, p->gridDimZ) == 0 || !are_keys_known(p->extra))
        return CUDA_ERROR_INVALID_VALUE;
    op->kind = SIM_OP_KERNEL;
    op->name = function->name_id;
    op->u.kernel.duration_ns = function->duration_ns;
    op->u.kernel.touch = 0;
    op->u.kernel.touch_bytes = 0;
    op->u.kernel.special = function->special;
    op->u.kernel.given = NULL;
    return function->special == SIM_PLAIN ? CUDA_SUCCESS : special_op(function, p->kernelParams, p->extra, op);
}

static CUresult launch(const CUDA_KERNEL_NODE_PARAMS *p, CUstream handle, bool per_thread)
{
    CUstream stream;
    struct sim_op op;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    SIM_TRY(sim_kernel_op(p, &op));
    op.u.kernel.given = p;
    return sim_submit(stream, &op);
}

#define KERNEL_PARAMS CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, CUstream stream
#define CALL(params, more) (&(CUDA_KERNEL_NODE_PARAMS){function, gx, gy, gz, bx, by, bz, shared, params, more, NULL, NULL})
CUresult cuLaunchKernel(KERNEL_PARAMS, void **params, void **extra) { return launch(CALL(params, extra), stream, false); }
CUresult cuLaunchKernel_ptsz(KERNEL_PARAMS, void **params, void **extra) { return launch(CALL(params, extra), stream, true); }
CUresult cuLaunchCooperativeKernel(KERNEL_PARAMS, void **params) { return launch(CALL(params, NULL), stream, false); }
CUresult cuLaunchCooperativeKernel_ptsz(KERNEL_PARAMS, void **params) { return launch(CALL(params, NULL), stream, true); }

/* One kernel for each GPU, none on a default stream. That they wait for each other is not simulated. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    SIM_ENTER();
    if (list == NULL || count == 0 || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (!sim_is(list[i].hStream, SIM_STREAM) || !sim_is(list[i].function, SIM_FUNCTION))
            return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        CUDA_KERNEL_NODE_PARAMS call = {p->function, p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ,
                                        p->sharedMemBytes, p->kernelParams, NULL, NULL, NULL};
        SIM_TRY(launch(&call, p->hStream, false));
    }
    return CUDA_SUCCESS;
}

static CUresult launch_config(const CUlaunchConfig *c, CUfunction function, void **params, void **extra, bool per_thread)
{
    if (c == NULL || (c->numAttrs > 0 && c->attrs == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS call = {function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                                    c->sharedMemBytes, params, extra, NULL, NULL};
    return launch(&call, c->hStream, per_thread);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) { return launch_config(config, function, params, extra, false); }
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) { return launch_config(config, function, params, extra, true); }

static CUresult host(CUstream handle, CUhostFn function, CUstreamCallback callback, void *data, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (function == NULL && callback == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (callback != NULL && stream->capture != NULL)
        return sim_capture_no_sync(stream); /* the old form cannot be captured */
    struct sim_op op = {.kind = SIM_OP_HOST};
    op.u.host.function = function;
    op.u.host.callback = callback;
    op.u.host.data = data;
    op.u.host.stream = handle;
    return sim_submit(stream, &op);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) { return host(stream, function, NULL, data, false); }
CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void *data) { return host(stream, function, NULL, data, true); }

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : host(stream, NULL, callback, data, false);
}

CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : host(stream, NULL, callback, data, true);
}

/* ---- occupancy: 2048 threads and 164 KiB of shared memory per multiprocessor ---- */

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block, size_t shared, unsigned int flags)
{
    SIM_ENTER();
    if (blocks == NULL || block <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_is(function, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    int by_threads = 2048 / block, by_shared = shared > 0 ? (int)(167936 / shared) : 32;
    int fit = by_threads < by_shared ? by_threads : by_shared;
    *blocks = block > 1024 ? 0 : fit > 32 ? 32 : fit;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit, unsigned int flags)
{
    int blocks;
    SIM_ENTER();
    if (grid == NULL || block == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *block = limit > 0 && limit < 1024 ? limit : 1024;
    SIM_TRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, *block, shared_of != NULL ? shared_of(*block) : shared, flags));
    *grid = blocks * 108;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int block)
{
    SIM_ENTER();
    if (bytes == NULL || blocks <= 0 || block <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_is(function, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *bytes = 167936 / (size_t)blocks;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function, const CUlaunchConfig *config)
{
    SIM_ENTER();
    if (size == NULL || config == NULL || !sim_is(function, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_VALUE;
    *size = sim_config()->compute_major >= 9 ? 8 : 1;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
    SIM_ENTER();
    if (clusters == NULL || config == NULL || !sim_is(function, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_VALUE;
    *clusters = sim_config()->compute_major >= 9 ? 108 / 8 : 108;
    return CUDA_SUCCESS;
}
