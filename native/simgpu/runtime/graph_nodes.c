/* Nodes of graphs: looking at them, changing them, and the kinds beyond kernel, copy, memset and host function. */
#include <stdint.h>

#include "runtime/runtime.h"

/* cudaMemAllocNodeParams and cudaGraphInstantiateParams have the driver's layout and pass as they are. */
#define NODE_ARGS cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count

static cudaError_t kernel_params(const struct rt_driver *d, cudaGraphNode_t node, struct cudaKernelNodeParams *out)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = out == NULL ? cudaErrorInvalidValue : rt_error(d->GraphKernelNodeGetParams(node, &p));
    if (error)
        return error;
    *out = (struct cudaKernelNodeParams){.func = (void *)rt_host_of(p.func ? p.func : (CUfunction)p.kern),
                                         .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
                                         .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
                                         .sharedMemBytes = p.sharedMemBytes,
                                         .kernelParams = p.kernelParams,
                                         .extra = p.extra};
    return cudaSuccess;
}

static cudaError_t set_kernel(const struct rt_driver *d, cudaGraphNode_t node, const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_kernel_node(&p, params);
    return error ? error : rt_error(d->GraphKernelNodeSetParams(node, &p));
}

static cudaError_t exec_set_kernel(const struct rt_driver *d, cudaGraphExec_t exec, cudaGraphNode_t node,
                                   const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS p;
    cudaError_t error = rt_kernel_node(&p, params);
    return error ? error : rt_error(d->GraphExecKernelNodeSetParams(exec, node, &p));
}

/* The memset structures of the two APIs are the same bytes. */
_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "memset node");

static cudaError_t exec_set_memset(const struct rt_driver *d, cudaGraphExec_t exec, cudaGraphNode_t node,
                                   const struct cudaMemsetParams *params)
{
    CUcontext context = NULL;
    cudaError_t error = rt_error(d->CtxGetCurrent(&context));
    return error ? error : rt_error(d->GraphExecMemsetNodeSetParams(exec, node, (const CUDA_MEMSET_NODE_PARAMS *)params, context));
}

RT_CALL(cudaGraphKernelNodeGetParams, (cudaGraphNode_t node, struct cudaKernelNodeParams *params), kernel_params(d, node, params))
RT_CALL(cudaGraphKernelNodeSetParams, (cudaGraphNode_t node, const struct cudaKernelNodeParams *params), set_kernel(d, node, params))
RT_CALL(cudaGraphExecKernelNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaKernelNodeParams *params),
        exec_set_kernel(d, exec, node, params))
RT_CALL(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, struct cudaMemsetParams *params),
        RT_PASS(GraphMemsetNodeGetParams, node, (CUDA_MEMSET_NODE_PARAMS *)params))
RT_CALL(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t node, const struct cudaMemsetParams *params),
        RT_PASS(GraphMemsetNodeSetParams, node, (const CUDA_MEMSET_NODE_PARAMS *)params))
RT_CALL(cudaGraphExecMemsetNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaMemsetParams *params),
        exec_set_memset(d, exec, node, params))
RT_CALL(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, struct cudaHostNodeParams *params),
        RT_PASS(GraphHostNodeGetParams, node, (CUDA_HOST_NODE_PARAMS *)params))
RT_CALL(cudaGraphHostNodeSetParams, (cudaGraphNode_t node, const struct cudaHostNodeParams *params),
        RT_PASS(GraphHostNodeSetParams, node, (const CUDA_HOST_NODE_PARAMS *)params))
RT_CALL(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t exec, cudaGraphNode_t node, const struct cudaHostNodeParams *params),
        RT_PASS(GraphExecHostNodeSetParams, exec, node, (const CUDA_HOST_NODE_PARAMS *)params))
RT_CALL(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *graph), RT_PASS(GraphChildGraphNodeGetGraph, node, graph))
RT_CALL(cudaGraphAddEventRecordNode, (NODE_ARGS, cudaEvent_t event), RT_PASS(GraphAddEventRecordNode, node, graph, after, count, event))
RT_CALL(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event), RT_PASS(GraphEventRecordNodeGetEvent, node, event))
RT_CALL(cudaGraphAddEventWaitNode, (NODE_ARGS, cudaEvent_t event), RT_PASS(GraphAddEventWaitNode, node, graph, after, count, event))
RT_CALL(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event), RT_PASS(GraphEventWaitNodeGetEvent, node, event))
RT_CALL(cudaGraphAddMemAllocNode, (NODE_ARGS, void *params),
        RT_PASS(GraphAddMemAllocNode, node, graph, after, count, (CUDA_MEM_ALLOC_NODE_PARAMS *)params))
RT_CALL(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, void *params),
        RT_PASS(GraphMemAllocNodeGetParams, node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params))
RT_CALL(cudaGraphAddMemFreeNode, (NODE_ARGS, void *pointer),
        RT_PASS(GraphAddMemFreeNode, node, graph, after, count, rt_address(pointer)))
RT_CALL(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *pointer),
        RT_PASS(GraphMemFreeNodeGetParams, node, (CUdeviceptr *)pointer))
RT_CALL(cudaGraphNodeSetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned enabled),
        RT_PASS(GraphNodeSetEnabled, exec, node, enabled))
RT_CALL(cudaGraphNodeGetEnabled, (cudaGraphExec_t exec, cudaGraphNode_t node, unsigned *enabled),
        RT_PASS(GraphNodeGetEnabled, exec, node, enabled))
RT_CALL0(cudaUserObjectCreate, (CUuserObject * object, void *pointer, cudaHostFn_t destroy, unsigned count, unsigned flags),
         RT_PASS(UserObjectCreate, object, pointer, destroy, count, flags))
RT_CALL0(cudaUserObjectRetain, (CUuserObject object, unsigned count), RT_PASS(UserObjectRetain, object, count))
RT_CALL0(cudaUserObjectRelease, (CUuserObject object, unsigned count), RT_PASS(UserObjectRelease, object, count))
RT_CALL0(cudaGraphRetainUserObject, (cudaGraph_t graph, CUuserObject object, unsigned count, unsigned flags),
         RT_PASS(GraphRetainUserObject, graph, object, count, flags))
RT_CALL0(cudaGraphReleaseUserObject, (cudaGraph_t graph, CUuserObject object, unsigned count),
         RT_PASS(GraphReleaseUserObject, graph, object, count))
