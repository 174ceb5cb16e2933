/* The parameters of kernel nodes belong to the nodes: they are copied when a node is made or captured, and a getter gives the copy. */
#include "simgpu_check.h"

static const char *const ptx =
    ".version 8.0\n.target sm_80\n.visible .entry shaped(\n.param .u32 shaped_0,\n.param .u64 shaped_1,\n.param .align 8 .b8 shaped_2[16]\n)\n{\nret;\n}\n";

static CUfunction touch, shaped;
static CUdeviceptr memory;
static CUstream stream;

static CUDA_KERNEL_NODE_PARAMS call_of(CUfunction function, void **params, void **extra)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function, .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1,
                                     .blockDimZ = 1, .sharedMemBytes = 64, .kernelParams = params, .extra = extra};
}

static uint64_t word(void *at)
{
    uint64_t value = 0;
    if (at != NULL)
        memcpy(&value, at, sizeof value);
    return value;
}

/* True if the node is a touch of these values. */
static bool touches(CUgraphNode node, uint64_t address, uint64_t bytes)
{
    CUDA_KERNEL_NODE_PARAMS seen = {0};
    OK(cuGraphKernelNodeGetParams_v2, node, &seen);
    return seen.func == touch && seen.gridDimX == 2 && seen.blockDimX == 32 && seen.sharedMemBytes == 64 && seen.kernelParams != NULL &&
           word(seen.kernelParams[0]) == address && word(seen.kernelParams[1]) == bytes;
}

static CUgraphNode first_of(CUgraph graph)
{
    CUgraphNode node = NULL;
    size_t count = 1;
    OK(cuGraphGetNodes, graph, &node, &count);
    return node;
}

static void made(void)
{
    CUgraph graph = NULL, clone = NULL;
    CUgraphNode node = NULL, found = NULL;
    uint64_t address = memory, bytes = 4096;
    void *params[] = {&address, &bytes};
    CUDA_KERNEL_NODE_PARAMS call = call_of(touch, params, NULL);
    OK(cuGraphCreate, &graph, 0);
    OK(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &call);
    address = bytes = 1;
    params[0] = params[1] = NULL;
    TRUE_(touches(node, memory, 4096));
    OK(cuGraphClone, &clone, graph);
    address = memory + 8, bytes = 8;
    params[0] = &address, params[1] = &bytes;
    OK(cuGraphKernelNodeSetParams_v2, node, &call);
    bytes = 1;
    TRUE_(touches(node, memory + 8, 8));
    OK(cuGraphNodeFindInClone, &found, node, clone);
    TRUE_(touches(found, memory, 4096)); /* as it was */
    OK(cuGraphKernelNodeGetParams_v2, node, &call);
    OK(cuGraphKernelNodeSetParams_v2, node, &call); /* with its own arrays */
    TRUE_(touches(node, memory + 8, 8));
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    any.u.kernel = call_of(touch, params, NULL);
    bytes = 16;
    OK(cuGraphNodeSetParams, node, &any);
    TRUE_(touches(node, memory + 8, 16));
    any.type = CU_GRAPH_NODE_TYPE_HOST;
    IS(BAD_VALUE, cuGraphNodeSetParams, node, &any);
    OK(cuGraphDestroy, graph);
    TRUE_(touches(found, memory, 4096));
    OK(cuGraphDestroy, clone);
}

static void of_several_sizes(void)
{
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    unsigned small = 7;
    uint64_t wide = 8, pair[2] = {9, 10};
    void *params[] = {&small, &wide, pair};
    CUDA_KERNEL_NODE_PARAMS call = call_of(shaped, params, NULL), seen = {0};
    OK(cuGraphCreate, &graph, 0);
    OK(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &call);
    small = 0, wide = pair[1] = 0;
    OK(cuGraphKernelNodeGetParams_v2, node, &seen);
    TRUE_(*(unsigned *)seen.kernelParams[0] == 7 && word(seen.kernelParams[1]) == 8 && word((char *)seen.kernelParams[2] + 8) == 10);
    call.gridDimY = 0;
    IS(BAD_VALUE, cuGraphKernelNodeSetParams_v2, node, &call);
    OK(cuGraphDestroy, graph);
}

static void captured(void)
{
    CUgraph graph = NULL, outer = NULL, inner = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL;
    uint64_t values[] = {memory, 4096};
    size_t size = sizeof values;
    void *params[] = {&values[0], &values[1]};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS seen = {0};
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuLaunchKernel, touch, 2, 1, 1, 32, 1, 1, 64, stream, NULL, extra);
    OK(cuStreamEndCapture, stream, &graph);
    values[1] = 0, size = 0;
    OK(cuGraphKernelNodeGetParams_v2, first_of(graph), &seen);
    TRUE_(seen.kernelParams == NULL && seen.extra != NULL && word(seen.extra[3]) == 16);
    TRUE_(word(seen.extra[1]) == memory && word((char *)seen.extra[1] + 8) == 4096);
    OK(cuGraphDestroy, graph);
    values[1] = 4096;
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuLaunchKernel, touch, 2, 1, 1, 32, 1, 1, 64, stream, params, NULL);
    OK(cuStreamEndCapture, stream, &graph);
    values[1] = 0;
    TRUE_(touches(first_of(graph), memory, 4096));
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    OK(cuGraphDestroy, graph);
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED); /* an instance knows them too */
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamEndCapture, stream, &outer);
    node = first_of(outer);
    OK(cuGraphChildGraphNodeGetGraph, node, &inner);
    TRUE_(touches(first_of(inner), memory, 4096));
    OK(cuGraphExecDestroy, exec);
    TRUE_(touches(first_of(inner), memory, 4096));
    OK(cuGraphDestroy, outer);
}

static void changed_in_an_instance(CUcontext context)
{
    CUgraph graph = NULL, outer = NULL, inner = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode run = NULL, set = NULL;
    uint64_t address = memory, bytes = 4096;
    void *params[] = {&address, &bytes};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUDA_MEMSET_NODE_PARAMS memset_params = {.dst = memory, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    CUDA_KERNEL_NODE_PARAMS call = call_of(touch, params, NULL);
    OK(cuGraphCreate, &graph, 0);
    OK(cuGraphAddKernelNode_v2, &run, graph, NULL, 0, &call);
    OK(cuGraphAddMemsetNode, &set, graph, &run, 1, &memset_params, context);
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    any.u.memset.dst = memory, any.u.memset.value = 9, any.u.memset.elementSize = 4, any.u.memset.width = any.u.memset.height = 1;
    OK(cuGraphExecNodeSetParams, exec, set, &any);
    IS(BAD_VALUE, cuGraphExecNodeSetParams, exec, run, &any);
    any.type = CU_GRAPH_NODE_TYPE_KERNEL;
    any.u.kernel = call;
    bytes = 8;
    OK(cuGraphExecNodeSetParams, exec, run, &any);
    bytes = 0;
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(*(volatile unsigned *)(uintptr_t)memory == 9);
    TRUE_(touches(run, memory, 4096)); /* the graph has not changed */
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamEndCapture, stream, &outer);
    OK(cuGraphChildGraphNodeGetGraph, first_of(outer), &inner);
    TRUE_(touches(first_of(inner), memory, 8));
    OK(cuGraphDestroy, outer);
    OK(cuGraphDestroy, graph);
    OK(cuGraphExecDestroy, exec);
}

/* The same child twice: its nodes are changed in one of them. */
static void changed_child(CUcontext context)
{
    CUgraph child = NULL, parent = NULL, other = NULL, empty = NULL;
    CUgraphNode set = NULL, first = NULL, second = NULL;
    CUgraphExec exec = NULL;
    CUDA_MEMSET_NODE_PARAMS params = {.dst = memory, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    volatile unsigned *value = (volatile unsigned *)(uintptr_t)memory;
    OK(cuGraphCreate, &child, 0);
    OK(cuGraphAddMemsetNode, &set, child, NULL, 0, &params, context);
    OK(cuGraphCreate, &parent, 0);
    OK(cuGraphAddChildGraphNode, &first, parent, NULL, 0, child);
    OK(cuGraphAddChildGraphNode, &second, parent, &first, 1, child);
    OK(cuGraphInstantiateWithFlags, &exec, parent, 0);
    params.dst = memory + 4, params.value = 2;
    OK(cuGraphClone, &other, child);
    OK(cuGraphMemsetNodeSetParams, first_of(other), &params);
    OK(cuGraphExecChildGraphNodeSetParams, exec, second, other);
    OK(cuGraphCreate, &empty, 0);
    IS(BAD_VALUE, cuGraphExecChildGraphNodeSetParams, exec, second, empty);
    value[0] = value[1] = 0;
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(value[0] == 1 && value[1] == 2);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    any.u.graph.graph = other;
    OK(cuGraphExecNodeSetParams, exec, first, &any);
    value[0] = 0;
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(value[0] == 0);
    OK(cuGraphDestroy, child);
    OK(cuGraphDestroy, parent);
    OK(cuGraphDestroy, other);
    OK(cuGraphDestroy, empty);
    OK(cuGraphExecDestroy, exec);
}

int main(void)
{
    CUmodule module = NULL;
    CUcontext context = start();
    OK(cuMemAlloc_v2, &memory, 4096);
    OK(cuModuleLoadData, &module, ptx);
    OK(cuModuleGetFunction, &shaped, module, "shaped");
    OK(cuModuleGetFunction, &touch, module, "sim_touch");
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    made();
    of_several_sizes();
    captured();
    changed_in_an_instance(context);
    changed_child(context);
    return done();
}
