/* Launching. `kernel<<<grid, block, shared, stream>>>(args)` compiles to: push the configuration, call the host stub, which
 * pops it again and calls cudaLaunchKernel with its own address; rt_kernel_of turns that into the kernel. From CUDA 13 on
 * the stub asks for the kernel once (__cudaGetKernel), keeps the handle and launches by that (__cudaLaunchKernel).
 */
#include <pthread.h>
#include <string.h>

#include "runtime/runtime.h"

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

/* Nested only while arguments of one launch contain another; a stub pops at once. */
enum { NESTED_MAX = 16 };

static _Thread_local struct configuration pushed[NESTED_MAX];
static _Thread_local int depth;

RT_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream);
RT_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    if (depth == NESTED_MAX)
        return 1; /* nvcc's code then skips the launch */
    pushed[depth++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

RT_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
RT_API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (depth == 0)
        return rt_leave(cudaErrorMissingConfiguration);
    struct configuration *top = &pushed[--depth];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

static cudaError_t check(dim3 grid, dim3 block)
{
    unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
    int limit = 0;
    if (threads == 0 || grid.x == 0 || grid.y == 0 || grid.z == 0)
        return cudaErrorInvalidConfiguration;
    if (threads <= 512) /* every device there is allows that */
        return cudaSuccess;
    if (rt_legacy.DeviceGetAttribute(&limit, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, rt_current_device()) != CUDA_SUCCESS)
        return cudaSuccess; /* then the driver decides */
    return threads > (unsigned)limit ? cudaErrorInvalidConfiguration : cudaSuccess;
}

static cudaError_t start(const struct rt_driver *d, CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared,
                         cudaStream_t stream)
{
    cudaError_t error = kernel == NULL ? cudaErrorInvalidDeviceFunction : check(grid, block);
    if (error)
        return error;
    return rt_error(d->LaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared, stream,
                                    args, NULL));
}

static cudaError_t launch(const struct rt_driver *d, const void *function, dim3 grid, dim3 block, void **args, size_t shared,
                          cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = rt_kernel_of(function, &kernel);
    return error ? error : start(d, kernel, grid, block, args, shared, stream);
}

static cudaError_t launch_cooperative(const struct rt_driver *d, const void *function, dim3 grid, dim3 block, void **args,
                                      size_t shared, cudaStream_t stream)
{
    CUkernel kernel;
    cudaError_t error = check(grid, block);
    if (!error)
        error = rt_kernel_of(function, &kernel);
    if (error)
        return error;
    return rt_error(d->LaunchCooperativeKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                               (unsigned)shared, stream, args));
}

static cudaError_t launch_ex(const struct rt_driver *d, const cudaLaunchConfig_t *config, const void *function, void **args)
{
    CUkernel kernel;
    cudaError_t error = config == NULL ? cudaErrorInvalidValue : check(config->gridDim, config->blockDim);
    if (!error)
        error = rt_kernel_of(function, &kernel);
    if (error)
        return error;
    CUlaunchConfig c = {.gridDimX = config->gridDim.x,
                        .gridDimY = config->gridDim.y,
                        .gridDimZ = config->gridDim.z,
                        .blockDimX = config->blockDim.x,
                        .blockDimY = config->blockDim.y,
                        .blockDimZ = config->blockDim.z,
                        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                        .hStream = config->stream,
                        .attrs = (CUlaunchAttribute *)config->attrs,
                        .numAttrs = config->numAttrs};
    return rt_error(d->LaunchKernelEx(&c, (CUfunction)kernel, args, NULL));
}

static cudaError_t function_of(const void *host, CUfunction *function)
{
    CUkernel kernel;
    cudaError_t error = rt_kernel_of(host, &kernel);
    return error ? error : rt_error(rt_legacy.KernelGetFunction(function, kernel));
}

static int function_attribute(CUfunction function, CUfunction_attribute which)
{
    int value = 0;
    return rt_legacy.FuncGetAttribute(&value, which, function) == CUDA_SUCCESS ? value : 0;
}

static cudaError_t attributes(struct cudaFuncAttributes *out, const void *host)
{
    CUfunction f;
    cudaError_t error = out == NULL ? cudaErrorInvalidValue : function_of(host, &f);
    if (error)
        return error;
    *out = (struct cudaFuncAttributes){
        .maxThreadsPerBlock = function_attribute(f, 0),
        .sharedSizeBytes = (size_t)function_attribute(f, 1),
        .constSizeBytes = (size_t)function_attribute(f, 2),
        .localSizeBytes = (size_t)function_attribute(f, 3),
        .numRegs = function_attribute(f, 4),
        .ptxVersion = function_attribute(f, 5),
        .binaryVersion = function_attribute(f, 6),
        .cacheModeCA = function_attribute(f, 7),
        .maxDynamicSharedSizeBytes = function_attribute(f, 8),
        .preferredShmemCarveout = function_attribute(f, 9),
    };
    return cudaSuccess;
}

static cudaError_t set_attribute(const struct rt_driver *d, const void *host, int which, int value)
{
    CUfunction f;
    cudaError_t error = function_of(host, &f);
    return error ? error : rt_error(d->FuncSetAttribute(f, (CUfunction_attribute)which, value));
}

static cudaError_t occupancy(const struct rt_driver *d, int *blocks, const void *host, int block, size_t shared, unsigned flags)
{
    CUfunction f;
    cudaError_t error = blocks == NULL ? cudaErrorInvalidValue : function_of(host, &f);
    return error ? error : rt_error(d->OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, block, shared, flags));
}

static cudaError_t spare_shared(const struct rt_driver *d, size_t *bytes, const void *host, int blocks, int block)
{
    CUfunction f;
    cudaError_t error = bytes == NULL ? cudaErrorInvalidValue : function_of(host, &f);
    return error ? error : rt_error(d->OccupancyAvailableDynamicSMemPerBlock(bytes, f, blocks, block));
}

static cudaError_t cache_config(const struct rt_driver *d, const void *host, int config)
{
    CUkernel kernel;
    cudaError_t error = rt_kernel_of(host, &kernel);
    return error ? error : rt_error(d->KernelSetCacheConfig(kernel, config, (CUdevice)rt_current_device()));
}

RT_CALL(__cudaGetKernel, (cudaKernel_t * kernel, const void *host), ((void)d, rt_kernel_of(host, kernel)))
RT_CALL2(__cudaLaunchKernel, _ptsz, (cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
         start(d, kernel, grid, block, args, shared, stream))
RT_CALL2(cudaLaunchKernel, _ptsz, (const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
         launch(d, function, grid, block, args, shared, stream))
RT_CALL2(cudaLaunchCooperativeKernel, _ptsz,
         (const void *function, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream),
         launch_cooperative(d, function, grid, block, args, shared, stream))
RT_CALL2(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *function, void **args),
         launch_ex(d, config, function, args))
RT_CALL(cudaFuncGetAttributes, (struct cudaFuncAttributes * out, const void *function), ((void)d, attributes(out, function)))
RT_CALL(cudaFuncSetAttribute, (const void *function, int which, int value), set_attribute(d, function, which, value))
RT_CALL(cudaFuncSetCacheConfig, (const void *function, int config), cache_config(d, function, config))
RT_CALL(cudaGetFuncBySymbol, (cudaFunction_t * function, const void *host), ((void)d, function_of(host, function)))
RT_CALL(cudaGetKernel, (cudaKernel_t * kernel, const void *host), ((void)d, rt_kernel_of(host, kernel)))
RT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *function, int block, size_t shared),
        occupancy(d, blocks, function, block, shared, 0))
RT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int *blocks, const void *function, int block, size_t shared, unsigned flags), occupancy(d, blocks, function, block, shared, flags))
RT_CALL(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t *bytes, const void *function, int blocks, int block),
        spare_shared(d, bytes, function, blocks, block))
