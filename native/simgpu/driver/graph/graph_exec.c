/* Instances of graphs: their operations in an order that respects the edges, launched as one operation of a stream. */
#include "driver/graph/graph.h"

#include <stdlib.h>
#include <string.h>

static size_t count_operations(CUgraph graph)
{
    size_t count = 0;
    for (size_t i = 0; i < graph->count; i++)
        count += graph->nodes[i]->child != NULL ? count_operations(graph->nodes[i]->child) : 1;
    return count;
}

static void put(CUgraphExec exec, const struct CUgraphNode_st *node)
{
    exec->operations[exec->count] = node->op;
    exec->ids[exec->count] = node->id;
    exec->types[exec->count] = node->type;
    exec->memories[exec->count] = sim_graph_memory_retain(node->memory);
    exec->arguments[exec->count] = sim_arguments_retain(node->arguments);
    exec->enabled[exec->count] = 1;
    exec->count++;
}

/* Rounds over the nodes: each round takes those whose dependencies are all taken. False if there is a circle. */
static bool flatten(CUgraphExec exec, CUgraph graph)
{
    size_t taken = 0;
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->mark = 0;
    for (bool moved = true; moved && taken < graph->count;) {
        moved = false;
        for (size_t i = 0; i < graph->count; i++) {
            CUgraphNode node = graph->nodes[i];
            bool ready = node->mark == 0;
            for (size_t d = 0; ready && d < node->count; d++)
                ready = node->dependencies[d]->mark != 0;
            if (!ready)
                continue;
            if (node->child == NULL)
                put(exec, node);
            else if (!flatten(exec, node->child))
                return false;
            node->mark = 1;
            moved = true;
            taken++;
        }
    }
    return taken == graph->count;
}

static void free_parts(CUgraphExec exec)
{
    free(exec->operations);
    free(exec->ids);
    free(exec->types);
    free(exec->enabled);
    for (uint32_t i = 0; i < exec->count; i++) {
        sim_graph_memory_release(exec->memories[i]);
        sim_arguments_release(exec->arguments[i]);
    }
    free(exec->memories);
    free(exec->arguments);
}

/* Fills a fresh instance's arrays. */
static CUresult build(CUgraphExec exec, CUgraph graph)
{
    size_t room = count_operations(graph) + 1;
    exec->operations = calloc(room, sizeof *exec->operations);
    exec->ids = calloc(room, sizeof *exec->ids);
    exec->types = calloc(room, sizeof *exec->types);
    exec->enabled = calloc(room, sizeof *exec->enabled);
    exec->memories = calloc(room, sizeof *exec->memories);
    exec->arguments = calloc(room, sizeof *exec->arguments);
    if (exec->operations == NULL || exec->ids == NULL || exec->types == NULL || exec->enabled == NULL || exec->memories == NULL ||
        exec->arguments == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->graph_id = graph->id;
    return flatten(exec, graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    SIM_ENTER();
    if (exec == NULL || !sim_is(graph, SIM_GRAPH) || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec made = sim_handle_new(SIM_EXEC, sizeof *made);
    if (made == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext context;
    CUresult result = build(made, graph);
    if (result == CUDA_SUCCESS && sim_current(&context) == CUDA_SUCCESS)
        result = sim_code_charge(&made->charge, context, sim_config()->graph_bytes);
    if (result != CUDA_SUCCESS) {
        free_parts(made);
        sim_handle_free(made);
        return result;
    }
    made->flags = flags;
    atomic_store(&made->references, 1);
    *exec = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t size)
{
    if (failed != NULL)
        *failed = NULL;
    if (log != NULL && size > 0)
        log[0] = '\0';
    return cuGraphInstantiateWithFlags(exec, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t size)
{
    return cuGraphInstantiate_v2(exec, graph, failed, log, size);
}

static CUresult with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    SIM_ENTER();
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuGraphInstantiateWithFlags(exec, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result == CUDA_SUCCESS ? 0 : 1;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) { return with_params(exec, graph, params); }
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params) { return with_params(exec, graph, params); }

static CUresult check(CUgraphExec exec)
{
    SIM_ENTER();
    return sim_is(exec, SIM_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    SIM_TRY(check(exec));
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

void sim_exec_release(CUgraphExec exec)
{
    if (atomic_fetch_sub(&exec->references, 1) != 1)
        return;
    free_parts(exec);
    sim_code_uncharge(&exec->charge);
    sim_handle_free(exec);
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    SIM_TRY(check(exec));
    sim_exec_release(exec); /* launches under way keep it until they are done */
    return CUDA_SUCCESS;
}

/* Same nodes in the same order: parameters are taken over. Anything else is refused. */
CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    struct CUgraphExec_st fresh = {.kind = SIM_EXEC};
    SIM_TRY(check(exec));
    if (!sim_is(graph, SIM_GRAPH) || info == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(build(&fresh, graph));
    bool same = fresh.count == exec->count && memcmp(fresh.types, exec->types, fresh.count * sizeof *fresh.types) == 0;
    if (same) {
        memcpy(exec->operations, fresh.operations, fresh.count * sizeof *fresh.operations);
        memcpy(exec->ids, fresh.ids, fresh.count * sizeof *fresh.ids);
        struct sim_graph_memory **memories = exec->memories;
        struct sim_arguments **arguments = exec->arguments;
        exec->memories = fresh.memories;
        exec->arguments = fresh.arguments;
        fresh.memories = memories;
        fresh.arguments = arguments;
    }
    free_parts(&fresh);
    *info = (CUgraphExecUpdateResultInfo){.result = same ? 0 : 2}; /* 2: topology changed */
    return same ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static CUresult enabled_at(CUgraphExec exec, CUgraphNode node, uint8_t **at)
{
    SIM_TRY(check(exec));
    if (!sim_is(node, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < exec->count; i++) {
        if (exec->ids[i] == node->id && exec->types[i] <= CU_GRAPH_NODE_TYPE_MEMSET) {
            *at = &exec->enabled[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled)
{
    uint8_t *at;
    SIM_TRY(enabled_at(exec, node, &at));
    *at = enabled != 0;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int *enabled)
{
    uint8_t *at;
    SIM_TRY(enabled_at(exec, node, &at));
    if (enabled == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = *at;
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(check(exec));
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    struct sim_op op = {.kind = SIM_OP_GRAPH};
    op.u.graph.exec = exec;
    if (stream->capture != NULL)
        return sim_submit(stream, &op); /* copied into the capture's graph */
    atomic_fetch_add(&exec->references, 1);
    CUresult result = sim_submit(stream, &op);
    if (result != CUDA_SUCCESS)
        sim_exec_release(exec);
    return result;
}

static CUresult upload(CUgraphExec exec, CUstream handle, bool per_thread)
{
    CUstream stream;
    SIM_TRY(check(exec));
    return sim_stream_resolve(handle, per_thread, &stream);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { return launch(exec, stream, false); }
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) { return launch(exec, stream, true); }
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) { return upload(exec, stream, false); }
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) { return upload(exec, stream, true); }
