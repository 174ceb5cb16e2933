/* Calls of every intercepted function that the driver refuses: what a pointer leads to may only be read after the driver has accepted
 * it. Prints the result of each; the test compares them with those without the library. First all functions with zeros for arguments,
 * in three states of the process; then a table of single wrong arguments. Memory behind `edge` cannot be read. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda_api.h"

/* Functions that the simulated driver only names. */
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *at, size_t *sizes, size_t count, CUmemLocation *to, size_t *indices, size_t locations, unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *at, size_t *sizes, size_t count, unsigned long long flags, CUstream stream);
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *at, size_t *sizes, size_t count, CUmemLocation *to, size_t *indices, size_t locations, unsigned long long flags, CUstream stream);

#define HUGE_COUNT ((size_t)1 << 40)

static void *driver;
static char *edge;

static void *find(const char *symbol) { return dlsym(driver, symbol); }

static void say(const char *call, CUresult result)
{
    printf("%s = %d\n", call, result);
    fflush(stdout);
}

#define CALL(symbol, ...) say(#symbol "(" #__VA_ARGS__ ")", ((__typeof__(symbol) *)find(#symbol))(__VA_ARGS__))
#define DO(symbol, ...) ((__typeof__(symbol) *)find(#symbol))(__VA_ARGS__)

/* `size` bytes that end where memory ends. */
static void *last(const void *bytes, size_t size) { return memcpy(edge - size, bytes, size); }

static void with_zeros(const char *symbol)
{
    typedef CUresult any(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
    any *call = (any *)find(symbol);
    if (call && strcmp(symbol, "cuInit") != 0) /* it would succeed */
        say(symbol, call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
}

static void all_with_zeros(const char *state)
{
    printf("%s:\n", state);
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) with_zeros(#symbol);
#define NVS_SYNC(name, symbol, since, variant, params, args) with_zeros(#symbol);
#define NVS_HOOK(name, symbol, since, variant, params) with_zeros(#symbol);
#include "../../native/libnvshare/lookup/symbols.def"
}

static void contexts_and_streams(CUstream stream)
{
    CUcontext context;
    void *function;
    CALL(cuCtxCreate, &context, 0, 99);
    CALL(cuCtxCreate_v2, NULL, 0, 0);
    CALL(cuCtxCreate_v2, &context, 0, 99);
    CALL(cuCtxCreate_v3, NULL, NULL, 0, 0, 0);
    CALL(cuCtxCreate_v4, NULL, NULL, 0, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 99);
    CALL(cuDevicePrimaryCtxRelease_v2, -1);
    CALL(cuDevicePrimaryCtxReset_v2, 99);
    CALL(cuCtxSetLimit, (CUlimit)99, 1);
    CALL(cuCtxFromGreenCtx, &context, NULL);
    CALL(cuStreamCreate, NULL, 0);
    CALL(cuStreamCreateWithPriority, NULL, 0, 0);
    CALL(cuStreamBeginCapture_v2, stream, (CUstreamCaptureMode)99);
    CALL(cuStreamEndCapture, stream, NULL);
    CALL(cuStreamWaitEvent, stream, NULL, 0);
    CALL(cuGetProcAddress, NULL, &function, 12000, 0);
    CALL(cuGetProcAddress, "cuMemAlloc", NULL, 12000, 0);
    CALL(cuGetProcAddress_v2, "", &function, 12000, 0, NULL);
    CALL(cuGetProcAddress_v2, "cuNothing", &function, 12000, 0, NULL);
}

static void memory(void)
{
    CUdeviceptr d;
    size_t pitch, bytes;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, nowhere = prop;
    nowhere.location.id = 99;
    CALL(cuMemAlloc_v2, NULL, 4096);
    CALL(cuMemAlloc_v2, &d, 0);
    CALL(cuMemAllocManaged, NULL, 4096, CU_MEM_ATTACH_GLOBAL);
    CALL(cuMemAllocManaged, &d, 0, CU_MEM_ATTACH_GLOBAL);
    CALL(cuMemAllocManaged, &d, 4096, 99);
    CALL(cuMemAllocPitch_v2, NULL, &pitch, 64, 64, 4);
    CALL(cuMemAllocPitch_v2, &d, NULL, 64, 64, 4);
    CALL(cuMemAllocPitch_v2, &d, &pitch, 0, 64, 4);
    CALL(cuMemAllocPitch_v2, &d, &pitch, 64, 64, 3);
    CALL(cuMemFree_v2, 12345);
    CALL(cuMemFreeAsync, 12345, NULL);
    CALL(cuMemCreate, NULL, 2 << 20, &prop, 0);
    CALL(cuMemCreate, &handle, 2 << 20, NULL, 0);
    CALL(cuMemCreate, &handle, 2 << 20, &nowhere, 0);
    CALL(cuMemCreate, &handle, 1, &prop, 0);
    CALL(cuMemMap, 12345, 2 << 20, 0, 0, 0);
    CALL(cuMemUnmap, 12345, SIZE_MAX);
    CALL(cuMemRetainAllocationHandle, NULL, NULL);
    CALL(cuMemRetainAllocationHandle, &handle, &d);
    CALL(cuMemGetInfo_v2, NULL, &bytes);
    CALL(cuMemGetInfo_v2, &bytes, NULL);
    CALL(cuDeviceTotalMem_v2, NULL, 0);
    CALL(cuDeviceTotalMem_v2, &bytes, 99);
}

static void pools(void)
{
    CUdeviceptr d;
    CUmemoryPool pool;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location}, nowhere = props;
    nowhere.location.id = 99;
    DO(cuDeviceGetDefaultMemPool, &pool, 0);
    CALL(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
    CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL);
    CALL(cuMemAllocFromPoolAsync, NULL, 4096, pool, NULL);
    CALL(cuMemPoolDestroy, pool);
    CALL(cuMemPoolCreate, &pool, NULL);
    CALL(cuMemPoolCreate, NULL, &props);
    CALL(cuMemPoolCreate, &pool, &nowhere);
    CALL(cuMemGetDefaultMemPool, &pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED);
    CALL(cuMemGetDefaultMemPool, NULL, &location, CU_MEM_ALLOCATION_TYPE_MANAGED);
    CALL(cuMemGetMemPool, &pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED);
    CALL(cuMemGetMemPool, NULL, &location, CU_MEM_ALLOCATION_TYPE_MANAGED);
    CALL(cuMemAllocAsync, NULL, 4096, NULL);
    CALL(cuMemAllocAsync, &d, 0, NULL);
    CALL(cuMemAllocFromPoolAsync, &d, 4096, NULL, NULL);
}

static void arrays(void)
{
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1}, empty = flat;
    CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    empty.Width = 0;
    CALL(cuArrayCreate_v2, NULL, &flat);
    CALL(cuArrayCreate_v2, &array, NULL);
    CALL(cuArrayCreate_v2, &array, &empty);
    CALL(cuArray3DCreate_v2, NULL, &deep);
    CALL(cuArray3DCreate_v2, &array, NULL);
    CALL(cuMipmappedArrayCreate, NULL, &deep, 1);
    CALL(cuMipmappedArrayCreate, &mipmap, NULL, 1);
    CALL(cuMipmappedArrayCreate, &mipmap, &deep, 0);
    CALL(cuMipmappedArrayCreate, &mipmap, &deep, UINT32_MAX);
}

static void pointers(CUdeviceptr d)
{
    unsigned value;
    CUpointer_attribute managed = CU_POINTER_ATTRIBUTE_IS_MANAGED, *attributes = last(&managed, sizeof managed);
    void *none[1] = {NULL}, *one[1] = {&value};
    CALL(cuPointerGetAttribute, NULL, CU_POINTER_ATTRIBUTE_IS_MANAGED, d);
    CALL(cuPointerGetAttribute, &value, (CUpointer_attribute)99, d);
    CALL(cuPointerGetAttributes, 0, attributes, one, d);
    CALL(cuPointerGetAttributes, 1, NULL, one, d);
    CALL(cuPointerGetAttributes, 1, attributes, NULL, d);
    CALL(cuPointerGetAttributes, 1, attributes, none, d);
    CALL(cuPointerGetAttributes, 1, attributes, one, d);
    CALL(cuIpcGetMemHandle, NULL, d);
}

/* None of these counts is true. The driver refuses batches on the legacy stream before it reads them. */
static void batches(CUdeviceptr d)
{
    CUdeviceptr *addresses = last(&d, sizeof d);
    size_t *sizes = (size_t *)addresses;
    CALL(cuMemcpyBatchAsync, addresses, addresses, sizes, HUGE_COUNT, NULL, NULL, 0, NULL, NULL);
    CALL(cuMemcpyBatchAsync_v2, addresses, addresses, sizes, HUGE_COUNT, NULL, NULL, 0, NULL);
    CALL(cuMemcpyBatchAsync, addresses, addresses, sizes, 0, NULL, NULL, 0, NULL, NULL);
    CALL(cuMemcpyBatchAsync, addresses, NULL, sizes, 1, NULL, NULL, 0, NULL, NULL);
    CALL(cuMemPrefetchBatchAsync, addresses, sizes, HUGE_COUNT, NULL, NULL, 0, 0, NULL);
    CALL(cuMemDiscardBatchAsync, addresses, sizes, HUGE_COUNT, 0, NULL);
    CALL(cuMemDiscardAndPrefetchBatchAsync, addresses, sizes, HUGE_COUNT, NULL, NULL, 0, 0, NULL);
}

/* A copy between arrays ignores the contexts: they may have any value. */
static void copies(CUdeviceptr d, CUstream stream)
{
    char host[64];
    CUDA_MEMCPY3D_PEER empty = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .srcContext = (CUcontext)edge, .dstContext = (CUcontext)edge};
    CALL(cuMemcpy3DPeer, &empty);
    CALL(cuMemcpy3DPeerAsync, &empty, stream);
    CALL(cuMemcpy2DAsync_v2, NULL, stream);
    CALL(cuMemcpyHtoD_v2, d, host, SIZE_MAX);
    CALL(cuMemsetD8_v2, d, 0, SIZE_MAX);
    CALL(cuMemsetD32_v2, d, 0, SIZE_MAX);
    CALL(cuMemsetD2D8_v2, d, SIZE_MAX / 2, 0, 1, 2);
    CALL(cuMemPrefetchAsync, d, SIZE_MAX, 0, stream);
    CALL(cuMemAdvise, d, SIZE_MAX, CU_MEM_ADVISE_SET_READ_MOSTLY, 0);
}

static CUfunction with_a_parameter(void)
{
    static const char ptx[] = ".version 8.0\n.target sm_80\n.visible .entry second(.param .u64 p)\n{\n}\n";
    CUmodule module = NULL;
    CUfunction function = NULL;
    DO(cuModuleLoadData, &module, ptx);
    DO(cuModuleGetFunction, &function, module, "second");
    return function;
}

/* The driver looks at the grid first, and at what describes the parameters one by one. */
static void launches(CUstream stream)
{
    CUfunction f = with_a_parameter();
    CUlaunchConfig no_grid = {.hStream = stream};
    void *unknown[] = {(void *)99}, **extra = last(unknown, sizeof unknown), **params = (void **)(void *)edge;
    CUDA_LAUNCH_PARAMS nothing = {0}, *list = last(&nothing, sizeof nothing);
    CALL(cuLaunchKernel, f, 0, 1, 1, 1, 1, 1, 0, stream, params, NULL);
    CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
    CALL(cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CALL(cuLaunchKernelEx, NULL, f, NULL, NULL);
    CALL(cuLaunchKernelEx, &no_grid, f, params, NULL);
    CALL(cuLaunchCooperativeKernel, f, 0, 1, 1, 1, 1, 1, 0, stream, params);
    CALL(cuLaunchCooperativeKernelMultiDevice, NULL, 1, 0);
    CALL(cuLaunchCooperativeKernelMultiDevice, list, 0, 0);
    CALL(cuLaunchCooperativeKernelMultiDevice, list, 1, 0);
}

static void graphs(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUlibrary library;
    CUkernel kernels[1];
    DO(cuGraphCreate, &graph, 0);
    DO(cuGraphAddEmptyNode, &node, graph, NULL, 0);
    DO(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CALL(cuGraphInstantiateWithFlags, NULL, graph, 0);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 1 << 20);
    CALL(cuGraphInstantiateWithParams, &exec, graph, NULL);
    CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, NULL);
    CALL(cuGraphExecMemcpyNodeSetParams, exec, node, NULL, NULL);
    CALL(cuGraphExecMemsetNodeSetParams, exec, node, NULL, NULL);
    CALL(cuGraphExecChildGraphNodeSetParams, exec, node, NULL);
    CALL(cuGraphExecNodeSetParams, exec, node, NULL);
    CALL(cuGraphExecUpdate_v2, exec, NULL, NULL);
    CALL(cuGraphExecUpdate_v2, exec, graph, NULL);
    DO(cuLibraryLoadData, &library, "", NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryGetKernel, NULL, library, "some_kernel");
    CALL(cuLibraryGetKernel, kernels, library, NULL);
    CALL(cuLibraryEnumerateKernels, NULL, 1, library);
    CALL(cuLibraryEnumerateKernels, kernels, 0, library);
}

int main(void)
{
    CUcontext context;
    CUstream stream;
    CUdeviceptr d = 0;
    size_t page = 65536;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    edge = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + page;
    mprotect(edge, page, PROT_NONE);
    all_with_zeros("before cuInit");
    DO(cuInit, 0);
    all_with_zeros("without a context");
    DO(cuCtxCreate_v2, &context, 0, 0);
    all_with_zeros("with a context");
    DO(cuMemAlloc_v2, &d, 4 << 20);
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    contexts_and_streams(stream);
    memory();
    pools();
    arrays();
    pointers(d);
    batches(d);
    copies(d, stream);
    launches(stream);
    graphs();
    return 0;
}
