/* Changing the parameters of nodes in an instance of their graph. */
#include "driver/graph/graph.h"

static CUresult replace(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, const struct sim_op *op, uint32_t *at)
{
    if (!sim_is(exec, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < exec->count; i++) {
        if (exec->ids[i] == node->id && exec->types[i] == type) {
            exec->operations[i] = *op;
            *at = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    uint32_t at;
    struct sim_op op = {0};
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_KERNEL));
    SIM_TRY(sim_kernel_op(params, &op));
    struct sim_arguments *arguments = sim_arguments_new(params);
    if (arguments == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = replace(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &op, &at);
    if (result == CUDA_SUCCESS) {
        sim_arguments_release(exec->arguments[at]);
        exec->arguments[at] = arguments;
    } else {
        sim_arguments_release(arguments);
    }
    return result;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    uint32_t at;
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMCPY));
    SIM_TRY(sim_context_check(context));
    SIM_TRY(sim_node_copy_op(copy, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &op, &at);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    uint32_t at;
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEMSET));
    SIM_TRY(sim_context_check(context));
    SIM_TRY(sim_node_memset_op(params, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &op, &at);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    uint32_t at;
    struct sim_op op;
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_HOST));
    SIM_TRY(sim_node_host_op(params, &op));
    return replace(exec, node, CU_GRAPH_NODE_TYPE_HOST, &op, &at);
}

/* Both have the same nodes in the same order. */
static bool is_alike(CUgraph one, CUgraph other)
{
    bool same = one->count == other->count;
    for (size_t i = 0; same && i < one->count; i++)
        same = one->nodes[i]->type == other->nodes[i]->type &&
               (one->nodes[i]->child == NULL || is_alike(one->nodes[i]->child, other->nodes[i]->child));
    return same;
}

static CUresult replace_all(CUgraphExec exec, CUgraph child, CUgraph with)
{
    uint32_t at;
    for (size_t i = 0; i < child->count; i++) {
        CUgraphNode node = child->nodes[i], from = with->nodes[i];
        if (node->child != NULL) {
            SIM_TRY(replace_all(exec, node->child, from->child));
            continue;
        }
        SIM_TRY(replace(exec, node, node->type, &from->op, &at));
        sim_arguments_release(exec->arguments[at]);
        exec->arguments[at] = sim_arguments_retain(from->arguments);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_GRAPH));
    if (!sim_is(exec, SIM_EXEC) || !sim_is(child, SIM_GRAPH) || !is_alike(node->child, child))
        return CUDA_ERROR_INVALID_VALUE;
    return replace_all(exec, node->child, child);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    CUcontext context;
    SIM_TRY(sim_graph_node_is_valid(node));
    if (params == NULL || params->type != node->type)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_current(&context));
    CUDA_MEMSET_NODE_PARAMS set = sim_node_memset(params);
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphExecKernelNodeSetParams_v2(exec, node, &params->u.kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphExecMemcpyNodeSetParams(exec, node, &params->u.memcpy.copyParams, context);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphExecMemsetNodeSetParams(exec, node, &set, context);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphExecHostNodeSetParams(exec, node, &params->u.host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphExecChildGraphNodeSetParams(exec, node, params->u.graph.graph);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
