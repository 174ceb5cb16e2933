/* The kinds of nodes: adding them, reading and changing their parameters, in a graph or in an instance of it. */
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

/* ---- parameters to operations ---- */

static CUresult kernel_op(const CUDA_KERNEL_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){0};
    CUfunction function = p->func != NULL ? p->func : (CUfunction)p->kern;
    return sim_kernel_op(function, p->blockDimX * p->blockDimY * p->blockDimZ, p->kernelParams, p->extra, op);
}

static CUresult copy_op(const CUDA_MEMCPY3D *p, struct sim_op *op)
{
    *op = (struct sim_op){.kind = SIM_OP_COPY};
    return sim_copy_3d(p, &op->u.copy);
}

static CUresult memset_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 || p->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_memory_at(p->dst) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = SIM_OP_MEMSET};
    op->u.memset.at = (char *)(uintptr_t)p->dst;
    op->u.memset.pitch = p->pitch;
    op->u.memset.width = p->width;
    op->u.memset.rows = p->height;
    op->u.memset.value = p->value;
    op->u.memset.element = p->elementSize;
    return CUDA_SUCCESS;
}

static CUresult host_op(const CUDA_HOST_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL || p->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = SIM_OP_HOST};
    op->u.host.function = p->fn;
    op->u.host.data = p->userData;
    return CUDA_SUCCESS;
}

static CUresult event_op(CUevent event, uint32_t kind, struct sim_op *op)
{
    if (!sim_is(event, SIM_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = kind};
    op->u.event.event = event;
    return CUDA_SUCCESS;
}

/* ADD, GET and SET for a kind whose parameters are one structure. */
#define NODE_KIND(name, suffix, kind, type, field, make) \
    CUresult cuGraph##name##NodeGetParams##suffix(CUgraphNode node, type *params) \
    { SIM_TRY(sim_graph_check_node(node, kind)); if (params == NULL) return CUDA_ERROR_INVALID_VALUE; *params = node->params.field; return CUDA_SUCCESS; } \
    CUresult cuGraph##name##NodeSetParams##suffix(CUgraphNode node, const type *params) \
    { struct sim_op op; SIM_TRY(sim_graph_check_node(node, kind)); SIM_TRY(make(params, &op)); node->op = op; node->params.field = *params; return CUDA_SUCCESS; }
NODE_KIND(Kernel, _v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS, kernel, kernel_op)
NODE_KIND(Memcpy, , CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, copy, copy_op)
NODE_KIND(Memset, , CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS, memset, memset_op)
NODE_KIND(Host, , CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS, host, host_op)

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op;
    SIM_ENTER();
    SIM_TRY(kernel_op(params, &op));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_KERNEL, dependencies, count));
    (*node)->op = op;
    (*node)->params.kernel = *params;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct sim_op op;
    SIM_ENTER();
    SIM_TRY(sim_context_check(context));
    SIM_TRY(copy_op(copy, &op));
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
    SIM_TRY(memset_op(params, &op));
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
    SIM_TRY(host_op(params, &op));
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_HOST, dependencies, count));
    (*node)->op = op;
    (*node)->params.host = *params;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    return sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, count);
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
    { struct sim_op op; SIM_ENTER(); SIM_TRY(event_op(event, operation, &op)); SIM_TRY(sim_graph_add_node(node, graph, kind, dependencies, count)); \
      (*node)->op = op; (*node)->params.event = event; return CUDA_SUCCESS; } \
    CUresult cuGraphEvent##name##NodeGetEvent(CUgraphNode node, CUevent *event) \
    { SIM_TRY(sim_graph_check_node(node, kind)); if (event == NULL) return CUDA_ERROR_INVALID_VALUE; *event = node->params.event; return CUDA_SUCCESS; } \
    CUresult cuGraphEvent##name##NodeSetEvent(CUgraphNode node, CUevent event) \
    { struct sim_op op; SIM_TRY(sim_graph_check_node(node, kind)); SIM_TRY(event_op(event, operation, &op)); node->op = op; node->params.event = event; return CUDA_SUCCESS; }
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
        CUDA_MEMSET_NODE_PARAMS set = {params->u.memset.dst, params->u.memset.pitch, params->u.memset.value,
                                       params->u.memset.elementSize, params->u.memset.width, params->u.memset.height};
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

/* ---- changing an instance ---- */

static CUresult replace(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, const struct sim_op *op)
{
    if (!sim_is(exec, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < exec->count; i++) {
        if (exec->ids[i] == node->id && exec->types[i] == type) {
            exec->operations[i] = *op;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
    SIM_TRY(kernel_op(params, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &op);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMCPY));
    SIM_TRY(sim_context_check(context));
    SIM_TRY(copy_op(copy, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &op);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMSET));
    SIM_TRY(sim_context_check(context));
    SIM_TRY(memset_op(params, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &op);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_HOST));
    SIM_TRY(host_op(params, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_HOST, &op);
}
