/* The kinds of nodes: adding them, reading and changing their parameters. Those of instances: exec_nodes.c. */
#include "driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

CUresult sim_graph_add_node(CUgraphNode *node, CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies, size_t count)
{
    SIM_ENTER();
    if (node == NULL || !sim_is(graph, SIM_GRAPH) || (count > 0 && dependencies == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!sim_is(dependencies[i], SIM_NODE) || dependencies[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    *node = sim_graph_add(graph, type, dependencies, count);
    return *node != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_graph_check_node(CUgraphNode node, CUgraphNodeType type)
{
    SIM_ENTER();
    return sim_is(node, SIM_NODE) && node->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ADD, GET and SET for a kind whose parameters are one structure. */
#define NODE_KIND(name, kind, type, field, make) \
    CUresult cuGraph##name##NodeGetParams(CUgraphNode node, type *params) \
    { SIM_TRY(sim_graph_check_node(node, kind)); if (params == NULL) return CUDA_ERROR_INVALID_VALUE; *params = node->params.field; return CUDA_SUCCESS; } \
    CUresult cuGraph##name##NodeSetParams(CUgraphNode node, const type *params) \
    { struct sim_op op; SIM_TRY(sim_graph_check_node(node, kind)); SIM_TRY(make(params, &op)); node->op = op; node->params.field = *params; return CUDA_SUCCESS; }
NODE_KIND(Memcpy, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy, sim_node_copy_op)
NODE_KIND(Memset, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, memset, sim_node_memset_op)
NODE_KIND(Host, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host, sim_node_host_op)

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op = {0};
    SIM_ENTER();
    SIM_TRY(sim_kernel_op(params, &op));
    struct sim_arguments *arguments = sim_arguments_new(params);
    if (arguments == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_KERNEL, dependencies, count);
    if (result != CUDA_SUCCESS) {
        sim_arguments_release(arguments);
        return result;
    }
    (*node)->op = op;
    (*node)->arguments = arguments;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *params = node->arguments->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op = {0};
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
    SIM_TRY(sim_kernel_op(params, &op));
    struct sim_arguments *arguments = sim_arguments_new(params), *before = node->arguments; /* the new ones may be in the old */
    if (arguments == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->op = op;
    node->arguments = arguments;
    sim_arguments_release(before);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct sim_op op;
    SIM_ENTER();
    SIM_TRY(sim_context_check(context));
    SIM_TRY(sim_node_copy_op(copy, &op));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_MEMCPY, dependencies, count));
    (*node)->op = op;
    (*node)->params.copy = *copy;
    (*node)->context = context;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct sim_op op;
    SIM_ENTER();
    SIM_TRY(sim_context_check(context));
    SIM_TRY(sim_node_memset_op(params, &op));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_MEMSET, dependencies, count));
    (*node)->op = op;
    (*node)->params.memset = *params;
    (*node)->context = context;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_op op;
    SIM_ENTER();
    SIM_TRY(sim_node_host_op(params, &op));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_HOST, dependencies, count));
    (*node)->op = op;
    (*node)->params.host = *params;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    return sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, count);
}

/* The nodes of a child are nodes of their own: a graph may have the same child twice. */
static void renumber(CUgraph graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        graph->nodes[i]->id = atomic_fetch_add(&sim.ids, 1) + 1;
        if (graph->nodes[i]->child != NULL)
            renumber(graph->nodes[i]->child);
    }
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)
{
    CUgraph copy;
    SIM_ENTER();
    if (!sim_is(child, SIM_GRAPH) || child == graph)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(cuGraphClone(&copy, child));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_GRAPH, dependencies, count));
    (*node)->child = copy;
    renumber(copy);
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *graph)
{
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_GRAPH));
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = node->child;
    return CUDA_SUCCESS;
}

#define EVENT_KIND(name, kind, operation) \
    CUresult cuGraphAddEvent##name##Node(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUevent event) \
    { struct sim_op op; SIM_ENTER(); SIM_TRY(sim_node_event_op(event, operation, &op)); SIM_TRY(sim_graph_add_node(node, graph, kind, dependencies, count)); \
      (*node)->op = op; (*node)->params.event = event; return CUDA_SUCCESS; } \
    CUresult cuGraphEvent##name##NodeGetEvent(CUgraphNode node, CUevent *event) \
    { SIM_TRY(sim_graph_check_node(node, kind)); if (event == NULL) return CUDA_ERROR_INVALID_VALUE; *event = node->params.event; return CUDA_SUCCESS; } \
    CUresult cuGraphEvent##name##NodeSetEvent(CUgraphNode node, CUevent event) \
    { struct sim_op op; SIM_TRY(sim_graph_check_node(node, kind)); SIM_TRY(sim_node_event_op(event, operation, &op)); node->op = op; node->params.event = event; return CUDA_SUCCESS; }
EVENT_KIND(Record, CU_GRAPH_NODE_TYPE_EVENT_RECORD, SIM_OP_EVENT)
EVENT_KIND(Wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT, SIM_OP_WAIT_EVENT)

CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraphNodeParams *params)
{
    CUcontext context;
    SIM_ENTER();
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &params->u.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        SIM_TRY(sim_current(&context));
        return cuGraphAddMemcpyNode(node, graph, dependencies, count, &params->u.memcpy.copyParams, context);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        SIM_TRY(sim_current(&context));
        CUDA_MEMSET_NODE_PARAMS set = sim_node_memset(params);
        return cuGraphAddMemsetNode(node, graph, dependencies, count, &set, context);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphAddHostNode(node, graph, dependencies, count, &params->u.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphAddChildGraphNode(node, graph, dependencies, count, params->u.graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return cuGraphAddEmptyNode(node, graph, dependencies, count);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphAddEventWaitNode(node, graph, dependencies, count, params->u.event.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphAddEventRecordNode(node, graph, dependencies, count, params->u.event.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphAddMemAllocNode(node, graph, dependencies, count, &params->u.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(node, graph, dependencies, count, params->u.free.dptr);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params)
{
    (void)edges;
    return cuGraphAddNode(node, graph, dependencies, count, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    SIM_TRY(sim_graph_node_is_valid(node));
    if (params == NULL || params->type != node->type)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMSET_NODE_PARAMS set = sim_node_memset(params);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(node, &params->u.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(node, &params->u.memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeSetParams(node, &set);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(node, &params->u.host);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
