/* A CUDA program that uses its memory as it is told, one command per line on stdin, one answer "RESULT VALUE" per line on stdout:
 *
 *   init            a context on device 0
 *   alloc N         -> address
 *   allocasync N    -> address of memory from the default pool
 *   free ADDRESS
 *   set ADDRESS N   a memset
 *   touch ADDRESS N TIMES   kernels that get the address and touch N bytes, one after the other
 *   burst ADDRESS N TIMES   the same, without a wait between them
 *   spin US TIMES   kernels without a pointer; they touch all memory of the process
 *   advise ADDRESS N
 *   prefetch ADDRESS N  to the GPU
 *   extra ADDRESS N     a kernel that touches N bytes, its parameters in a buffer
 *   kernel ADDRESS N    a kernel of a library that touches N bytes
 *   shaped ADDRESS N    a copy of N bytes as rows, from the second half of them to the first
 *   batch ADDRESS N     the same as one copy of a batch
 *   peer ADDRESS N      the same as a copy between contexts
 *   capture ADDRESS N   makes a graph by capture: a memset of N bytes
 *   build ADDRESS N     makes a graph of nodes: a kernel that touches N bytes
 *   nest                the kernels of graphs are in child graphs from now on
 *   unreadable          makes a graph of a kernel whose parameters nobody knows
 *   retarget ADDRESS N HOW   changes the kernel of the instance. HOW: 0 it, 1 any node, 2 the whole graph, 3 the child graph
 *   replay TIMES        launches the instance
 *   forget              destroys the instance
 *   destroy         the context and all memory in it
 *
 * Each answers when the GPU has done it. */
#include <stdbool.h>
#include <stdint.h>

#include "lib_driver.h"

static CUcontext context;
static CUfunction touch_kernel, spin_kernel;
static CUstream stream;
static CUresult (*load_library)(CUlibrary *, const void *, void *, void *, unsigned, void *, void *, unsigned);
static CUresult (*get_kernel)(CUkernel *, CUlibrary, const char *);
static CUresult (*advise)(CUdeviceptr, size_t, CUmem_advise, CUdevice);
static CUresult (*prefetch)(CUdeviceptr, size_t, CUdevice, CUstream);
static CUresult (*copy_2d)(const CUDA_MEMCPY2D *, CUstream);
static CUresult (*copy_batch)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t, CUstream);
static CUresult (*copy_peer)(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream);

static CUresult init(void)
{
    CUmodule module;
    CUresult result = cu.Init(0);
    if (result == CUDA_SUCCESS)
        result = cu.CtxCreate(&context, 0, 0);
    if (result == CUDA_SUCCESS)
        result = cu.ModuleLoadData(&module, "");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&touch_kernel, module, "sim_touch");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&spin_kernel, module, "sim_spin_us");
    return result == CUDA_SUCCESS ? cu.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) : result;
}

static CUresult launch(CUfunction kernel, uint64_t first, uint64_t second, uint64_t times)
{
    void *params[] = {&first, &second};
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < times && result == CUDA_SUCCESS; i++) {
        result = cu.LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
        if (result == CUDA_SUCCESS)
            result = cu.CtxSynchronize();
    }
    return result;
}

static CUresult burst(uint64_t address, uint64_t bytes, uint64_t times)
{
    void *params[] = {&address, &bytes};
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < times && result == CUDA_SUCCESS; i++)
        result = cu.LaunchKernel(touch_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    return result == CUDA_SUCCESS ? cu.CtxSynchronize() : result;
}

static CUresult set(uint64_t address, uint64_t bytes)
{
    CUresult result = cu.MemsetD8Async(address, 0, bytes, NULL);
    return result == CUDA_SUCCESS ? cu.CtxSynchronize() : result;
}

static CUresult finished(CUresult result) { return result == CUDA_SUCCESS ? cu.CtxSynchronize() : result; }

static CUresult extra(uint64_t address, uint64_t bytes)
{
    uint64_t buffer[] = {address, bytes};
    size_t size = sizeof buffer;
    void *words[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    return finished(cu.LaunchKernel(touch_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, words));
}

static CUresult of_library(uint64_t address, uint64_t bytes)
{
    CUlibrary library;
    CUkernel kernel;
    CUresult result = load_library(&library, "", NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_SUCCESS)
        result = get_kernel(&kernel, library, "sim_touch");
    return result == CUDA_SUCCESS ? launch((CUfunction)kernel, address, bytes, 1) : result;
}

static CUresult shaped(uint64_t address, uint64_t bytes)
{
    enum { WIDTH = 1 << 20 };
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = address, .srcY = bytes / 2 / WIDTH, .srcPitch = WIDTH,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = address, .dstPitch = WIDTH,
                          .WidthInBytes = WIDTH, .Height = bytes / 2 / WIDTH};
    return finished(copy_2d(&copy, NULL));
}

static CUresult batch(uint64_t address, uint64_t bytes)
{
    CUdeviceptr to = address, from = address + bytes / 2;
    size_t half = bytes / 2, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = 1};
    return finished(copy_batch(&to, &from, &half, 1, &attributes, &first, 1, stream)); /* not in the default stream */
}

/* ---- graphs ---- */

static CUgraph graph;
static CUgraphNode node; /* of the kernel, or of its child graph */
static CUgraphExec exec;
static bool is_nested;
static CUresult (*add_kernel)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *);
static CUresult (*add_child)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph);
static CUresult (*set_kernel)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
static CUresult (*set_child)(CUgraphExec, CUgraphNode, CUgraph);
static CUresult (*set_any)(CUgraphExec, CUgraphNode, CUgraphNodeParams *);
static CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *);

static CUresult instantiate(CUresult result) { return result == CUDA_SUCCESS ? cu.GraphInstantiateWithFlags(&exec, graph, 0) : result; }

static CUresult capture(uint64_t address, uint64_t bytes)
{
    CUresult result = cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (result == CUDA_SUCCESS)
        result = cu.MemsetD8Async(address, 0, bytes, stream);
    return instantiate(result == CUDA_SUCCESS ? cu.StreamEndCapture(stream, &graph) : result);
}

static CUDA_KERNEL_NODE_PARAMS call_of(CUfunction function, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function, .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                                     .blockDimZ = 1, .kernelParams = params};
}

static CUresult graph_of(CUfunction function, uint64_t address, uint64_t bytes)
{
    void *params[] = {&address, &bytes};
    CUDA_KERNEL_NODE_PARAMS call = call_of(function, params);
    CUgraph inner = NULL;
    cu.GraphCreate(&inner, 0);
    CUresult result = add_kernel(&node, inner, NULL, 0, &call);
    graph = inner;
    if (result != CUDA_SUCCESS || !is_nested)
        return result;
    cu.GraphCreate(&graph, 0);
    return add_child(&node, graph, NULL, 0, inner);
}

static CUresult unreadable(void)
{
    CUmodule module;
    CUfunction function;
    CUresult result = cu.ModuleLoadData(&module, "an image of no known form");
    if (result == CUDA_SUCCESS)
        result = cu.ModuleGetFunction(&function, module, "nobody_knows");
    return result == CUDA_SUCCESS ? instantiate(graph_of(function, 0, 0)) : result;
}

static CUresult retarget(uint64_t address, uint64_t bytes, uint64_t how)
{
    void *params[] = {&address, &bytes};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraphExecUpdateResultInfo info;
    CUgraphNode before = node;
    any.u.kernel = call_of(touch_kernel, params);
    if (how == 0)
        return set_kernel(exec, node, &any.u.kernel);
    if (how == 1)
        return set_any(exec, node, &any);
    is_nested &= how == 2;
    CUresult result = graph_of(touch_kernel, address, bytes);
    if (result == CUDA_SUCCESS)
        result = how == 2 ? update(exec, graph, &info) : set_child(exec, before, graph);
    return result;
}

static CUresult replay(uint64_t times)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0; i < times && result == CUDA_SUCCESS; i++)
        result = finished(cu.GraphLaunch(exec, stream));
    return result;
}

static CUresult obey_graphs(const char *word, uint64_t a, uint64_t b, uint64_t c)
{
    if (!strcmp(word, "capture")) return capture(a, b);
    if (!strcmp(word, "nest")) return is_nested = true, CUDA_SUCCESS;
    if (!strcmp(word, "build")) return instantiate(graph_of(touch_kernel, a, b));
    if (!strcmp(word, "unreadable")) return unreadable();
    if (!strcmp(word, "retarget")) return retarget(a, b, c);
    if (!strcmp(word, "replay")) return replay(a);
    if (!strcmp(word, "forget")) return cu.GraphExecDestroy(exec);
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult obey(const char *word, uint64_t a, uint64_t b, uint64_t c, CUdeviceptr *value)
{
    if (!strcmp(word, "init")) return init();
    if (!strcmp(word, "alloc")) return cu.MemAlloc(value, a);
    if (!strcmp(word, "allocasync")) return cu.MemAllocAsync(value, a, stream);
    if (!strcmp(word, "free")) return cu.MemFree(a);
    if (!strcmp(word, "set")) return set(a, b);
    if (!strcmp(word, "touch")) return launch(touch_kernel, a, b, c);
    if (!strcmp(word, "burst")) return burst(a, b, c);
    if (!strcmp(word, "spin")) return launch(spin_kernel, a, 0, b);
    if (!strcmp(word, "advise")) return advise(a, b, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0);
    if (!strcmp(word, "prefetch")) return finished(prefetch(a, b, 0, NULL));
    if (!strcmp(word, "extra")) return extra(a, b);
    if (!strcmp(word, "kernel")) return of_library(a, b);
    if (!strcmp(word, "shaped")) return shaped(a, b);
    if (!strcmp(word, "batch")) return batch(a, b);
    if (!strcmp(word, "peer")) return finished(copy_peer(a, context, a + b / 2, context, b / 2, NULL));
    if (!strcmp(word, "destroy")) return cu.CtxDestroy(context);
    return obey_graphs(word, a, b, c);
}

int main(void)
{
    char line[256], word[32];
    if (lib_driver_find("dlsym"))
        return 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&advise = dlsym(driver, "cuMemAdvise");
    *(void **)&prefetch = dlsym(driver, "cuMemPrefetchAsync");
    *(void **)&load_library = dlsym(driver, "cuLibraryLoadData");
    *(void **)&get_kernel = dlsym(driver, "cuLibraryGetKernel");
    *(void **)&copy_2d = dlsym(driver, "cuMemcpy2DAsync_v2");
    *(void **)&copy_batch = dlsym(driver, "cuMemcpyBatchAsync_v2");
    *(void **)&copy_peer = dlsym(driver, "cuMemcpyPeerAsync");
    *(void **)&add_kernel = dlsym(driver, "cuGraphAddKernelNode_v2");
    *(void **)&add_child = dlsym(driver, "cuGraphAddChildGraphNode");
    *(void **)&set_kernel = dlsym(driver, "cuGraphExecKernelNodeSetParams_v2");
    *(void **)&set_child = dlsym(driver, "cuGraphExecChildGraphNodeSetParams");
    *(void **)&set_any = dlsym(driver, "cuGraphExecNodeSetParams");
    *(void **)&update = dlsym(driver, "cuGraphExecUpdate_v2");
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        unsigned long long a = 0, b = 0, c = 0;
        CUdeviceptr value = 0;
        if (sscanf(line, "%31s %llu %llu %llu", word, &a, &b, &c) < 1 || !strcmp(word, "exit"))
            return 0;
        CUresult result = obey(word, a, b, c, &value);
        printf("%d %llu\n", (int)result, (unsigned long long)value);
    }
    return 0;
}
