/* Graphs. A kernel node is given by its host function, everything else passes through. */
#include <stdint.h>
#include <string.h>

#include "runtime/runtime.h"

cudaError_t rt_kernel_node(CUDA_KERNEL_NODE_PARAMS *out, const struct cudaKernelNodeParams *p)
{
    CUkernel kernel;
    cudaError_t error = p == NULL ? cudaErrorInvalidValue : rt_kernel_of(p->func, &kernel);
    if (error)
        return error;
    *out = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = p->gridDim.x,
                                     .gridDimY = p->gridDim.y,
                                     .gridDimZ = p->gridDim.z,
                                     .blockDimX = p->blockDim.x,
                                     .blockDimY = p->blockDim.y,
                                     .blockDimZ = p->blockDim.z,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
    return rt_error(rt_legacy.KernelGetFunction(&out->func, kernel));
}

static cudaError_t add_kernel(const struct rt_driver *d, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                              size_t count, const struct cudaKernelNodeParams *p)
{
    CUDA_KERNEL_NODE_PARAMS params;
    cudaError_t error = rt_kernel_node(&params, p);
    return error ? error : rt_error(d->GraphAddKernelNode(node, graph, after, count, &params));
}

static cudaError_t add_memset(const struct rt_driver *d, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                              size_t count, const struct cudaMemsetParams *p)
{
    CUcontext context = NULL;
    if (p == NULL)
        return cudaErrorInvalidValue;
    CUDA_MEMSET_NODE_PARAMS params = {.dst = rt_address(p->dst),
                                      .pitch = p->pitch,
                                      .value = p->value,
                                      .elementSize = p->elementSize,
                                      .width = p->width,
                                      .height = p->height};
    cudaError_t error = rt_error(d->CtxGetCurrent(&context));
    return error ? error : rt_error(d->GraphAddMemsetNode(node, graph, after, count, &params, context));
}

static cudaError_t add_copy(const struct rt_driver *d, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                            size_t count, const CUDA_MEMCPY3D *plan)
{
    CUcontext context = NULL;
    cudaError_t error = rt_error(d->CtxGetCurrent(&context));
    return error ? error : rt_error(d->GraphAddMemcpyNode(node, graph, after, count, plan, context));
}

static cudaError_t add_copy_1d(const struct rt_driver *d, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                               size_t count, void *to, const void *from, size_t bytes)
{
    CUDA_MEMCPY3D plan = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = rt_address(from),
                          .dstDevice = rt_address(to),
                          .srcPitch = bytes,
                          .dstPitch = bytes,
                          .srcHeight = 1,
                          .dstHeight = 1,
                          .WidthInBytes = bytes,
                          .Height = 1,
                          .Depth = 1};
    return add_copy(d, node, graph, after, count, &plan);
}

static cudaError_t add_copy_3d(const struct rt_driver *d, cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                               size_t count, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D plan;
    cudaError_t error = rt_plan_3d(&plan, p);
    return error ? error : add_copy(d, node, graph, after, count, &plan);
}

/* Ours have no annotated edges: what a caller asks for is the plain kind, all zero. */
#if NVS_CUDART_MAJOR >= 13
static cudaError_t edges_of(CUresult result, CUgraphEdgeData *edges, const size_t *count)
{
    if (result == CUDA_SUCCESS && edges != NULL && count != NULL)
        memset(edges, 0, *count * sizeof *edges);
    return rt_error(result);
}
#endif

#define NODE_ARGS cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count

RT_CALL0(cudaGraphCreate, (cudaGraph_t * graph, unsigned flags), RT_PASS(GraphCreate, graph, flags))
RT_CALL0(cudaGraphDestroy, (cudaGraph_t graph), RT_PASS(GraphDestroy, graph))
RT_CALL0(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t graph), RT_PASS(GraphClone, clone, graph))
RT_CALL0(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), RT_PASS(GraphGetNodes, graph, nodes, count))
RT_CALL0(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
         RT_PASS(GraphGetRootNodes, graph, nodes, count))
RT_CALL0(cudaGraphNodeGetType, (cudaGraphNode_t node, int *type), RT_PASS(GraphNodeGetType, node, (CUgraphNodeType *)type))
RT_CALL0(cudaGraphDestroyNode, (cudaGraphNode_t node), RT_PASS(GraphDestroyNode, node))
RT_CALL0(cudaGraphAddEmptyNode, (NODE_ARGS), RT_PASS(GraphAddEmptyNode, node, graph, after, count))
RT_CALL0(cudaGraphAddHostNode, (NODE_ARGS, const struct cudaHostNodeParams *params),
         RT_PASS(GraphAddHostNode, node, graph, after, count, (const CUDA_HOST_NODE_PARAMS *)params))
RT_CALL0(cudaGraphAddChildGraphNode, (NODE_ARGS, cudaGraph_t child), RT_PASS(GraphAddChildGraphNode, node, graph, after, count, child))
RT_CALL(cudaGraphAddKernelNode, (NODE_ARGS, const struct cudaKernelNodeParams *params),
        add_kernel(d, node, graph, after, count, params))
RT_CALL(cudaGraphAddMemsetNode, (NODE_ARGS, const struct cudaMemsetParams *params),
        add_memset(d, node, graph, after, count, params))
RT_CALL(cudaGraphAddMemcpyNode, (NODE_ARGS, const struct cudaMemcpy3DParms *params),
        add_copy_3d(d, node, graph, after, count, params))
RT_CALL(cudaGraphAddMemcpyNode1D, (NODE_ARGS, void *to, const void *from, size_t bytes, int kind),
        ((void)kind, add_copy_1d(d, node, graph, after, count, to, from, bytes)))
RT_CALL(cudaGraphInstantiate, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        RT_PASS(GraphInstantiateWithFlags, exec, graph, flags))
RT_CALL(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
        RT_PASS(GraphInstantiateWithFlags, exec, graph, flags))
RT_CALL(cudaGraphExecUpdate, (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info),
        RT_PASS(GraphExecUpdate, exec, graph, (CUgraphExecUpdateResultInfo *)info))
RT_CALL(cudaGraphExecDestroy, (cudaGraphExec_t exec), RT_PASS(GraphExecDestroy, exec))
RT_CALL2(cudaGraphInstantiateWithParams, _ptsz, (cudaGraphExec_t * exec, cudaGraph_t graph, void *params),
         RT_PASS(GraphInstantiateWithParams, exec, graph, (CUDA_GRAPH_INSTANTIATE_PARAMS *)params))
RT_CALL(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long *flags), RT_PASS(GraphExecGetFlags, exec, (cuuint64_t *)flags))
RT_CALL2(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), RT_PASS(GraphLaunch, exec, stream))
RT_CALL2(cudaGraphUpload, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream), RT_PASS(GraphUpload, exec, stream))
RT_CALL0(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned flags), RT_PASS(GraphDebugDotPrint, graph, path, flags))
#if NVS_CUDART_MAJOR == 12
RT_CALL0(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count),
         RT_PASS(GraphGetEdges, graph, from, to, count))
RT_CALL0(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *nodes, size_t *count),
         RT_PASS(GraphNodeGetDependencies, node, nodes, count))
RT_CALL0(cudaGraphAddDependencies, (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t count),
         RT_PASS(GraphAddDependencies, graph, from, to, count))
#else
RT_CALL0(cudaGraphGetEdges, (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, CUgraphEdgeData *edges, size_t *count),
         edges_of(d->GraphGetEdges(graph, from, to, count), edges, count))
RT_CALL0(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *nodes, CUgraphEdgeData *edges, size_t *count),
         edges_of(d->GraphNodeGetDependencies(node, nodes, count), edges, count))
RT_CALL0(cudaGraphAddDependencies,
         (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, const CUgraphEdgeData *edges, size_t count),
         (edges ? cudaErrorNotSupported : RT_PASS(GraphAddDependencies, graph, from, to, count)))
#endif
