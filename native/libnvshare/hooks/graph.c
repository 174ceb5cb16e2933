/* Changes of instances of graphs: seen, because launches use what the nodes name (mover/graphs.h). */
#include "hooks/hooks.h"
#include "mover/graphs.h"

#define CHANGES(symbol, params, args, seen) \
    CUresult symbol params \
    { \
        NVS_BEGIN_HOOK(symbol args); \
        CUresult result = nvs_real.symbol args; \
        if (result == CUDA_SUCCESS) \
            seen; \
        return result; \
    }

CHANGES(cuGraphExecKernelNodeSetParams, (CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *p), (x, node, p),
        nvs_graphs_kernel_changed(x, p->func, p->kernelParams, p->extra))
CHANGES(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec x, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p), (x, node, p),
        nvs_graphs_kernel_changed(x, p->func ? p->func : (CUfunction)p->kern, p->kernelParams, p->extra))
CHANGES(cuGraphExecMemcpyNodeSetParams, (CUgraphExec x, CUgraphNode node, const CUDA_MEMCPY3D *c, CUcontext context), (x, node, c, context),
        nvs_graphs_copy_changed(x, c))
CHANGES(cuGraphExecMemsetNodeSetParams, (CUgraphExec x, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context),
        (x, node, p, context), nvs_graphs_memset_changed(x, p))
CHANGES(cuGraphExecChildGraphNodeSetParams, (CUgraphExec x, CUgraphNode node, CUgraph child), (x, node, child), nvs_graphs_child_changed(x, child))
CHANGES(cuGraphExecNodeSetParams, (CUgraphExec x, CUgraphNode node, CUgraphNodeParams *p), (x, node, p), nvs_graphs_node_changed(x, p))
CHANGES(cuGraphExecUpdate, (CUgraphExec x, CUgraph g, CUgraphNode *failed, int *why), (x, g, failed, why), nvs_graphs_instantiated(x, g))
CHANGES(cuGraphExecUpdate_v2, (CUgraphExec x, CUgraph g, CUgraphExecUpdateResultInfo *info), (x, g, info), nvs_graphs_instantiated(x, g))
