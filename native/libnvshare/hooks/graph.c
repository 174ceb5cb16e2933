/* Instances of graphs. They are charged for the memory of their allocation nodes. That they are made, changed and destroyed is seen,
 * because launches use what the nodes name (mover/graphs.h). */
#include <stdlib.h>

#include "hooks/charge.h"
#include "hooks/hooks.h"
#include "memory/entries.h"
#include "mover/graphs.h"

enum { MAX_NESTED_GRAPHS = 16 };

/* The sum of the graph's allocation nodes. The driver needs less if it places several of them at one address. */
static uint64_t graph_bytes(CUgraph graph, int depth)
{
    size_t count = 0;
    uint64_t bytes = 0;
    if (depth > MAX_NESTED_GRAPHS || nvs_real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count)
        return 0;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes && nvs_real.cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++) {
            CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
            CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
            CUgraph child;
            nvs_real.cuGraphNodeGetType(nodes[i], &type);
            if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && nvs_real.cuGraphMemAllocNodeGetParams(nodes[i], &params) == CUDA_SUCCESS)
                bytes += params.bytesize;
            else if (type == CU_GRAPH_NODE_TYPE_GRAPH && nvs_real.cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS)
                bytes += graph_bytes(child, depth + 1);
        }
    free(nodes);
    return bytes;
}

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph)
{
    if (result == CUDA_SUCCESS)
        nvs_graphs_instantiated(*exec, graph);
    return result;
}

#define INSTANTIATE(symbol, params, args) \
    CUresult symbol params \
    { \
        NVS_BEGIN_HOOK(symbol args); \
        NVS_CHARGE(NVS_KIND_GRAPH_EXEC, x, graph_bytes(g, 0), instantiated(nvs_real.symbol args, x, g)); \
    }
INSTANTIATE(cuGraphInstantiate, (CUgraphExec *x, CUgraph g, CUgraphNode *err, char *log, size_t n), (x, g, err, log, n))
INSTANTIATE(cuGraphInstantiate_v2, (CUgraphExec *x, CUgraph g, CUgraphNode *err, char *log, size_t n), (x, g, err, log, n))
INSTANTIATE(cuGraphInstantiateWithFlags, (CUgraphExec *x, CUgraph g, unsigned long long flags), (x, g, flags))
INSTANTIATE(cuGraphInstantiateWithParams, (CUgraphExec *x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *x, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (x, g, p))

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    NVS_BEGIN_HOOK(cuGraphExecDestroy(x));
    struct nvs_ledger_entry entry;
    nvs_graphs_forget(x);
    bool is_ours = nvs_entries_take(NVS_KIND_GRAPH_EXEC, (uintptr_t)x, &entry);
    return nvs_charge_return(nvs_real.cuGraphExecDestroy(x), is_ours, &entry);
}

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
