/* Graphs, their nodes and clones. Edges are in graph_edges.c, kinds of nodes in graph_nodes.c, execution in graph_exec.c. */
#include "driver/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CUgraph sim_graph_new(void)
{
    CUgraph graph = sim_handle_new(SIM_GRAPH, sizeof *graph);
    if (graph != NULL)
        graph->id = atomic_fetch_add(&sim.ids, 1) + 1;
    return graph;
}

static bool append_node(CUgraph graph, CUgraphNode node)
{
    if (graph->count == graph->room) {
        size_t room = graph->room == 0 ? 16 : 2 * graph->room;
        CUgraphNode *grown = realloc(graph->nodes, room * sizeof *grown);
        if (grown == NULL)
            return false;
        graph->nodes = grown;
        graph->room = room;
    }
    graph->nodes[graph->count++] = node;
    return true;
}

bool sim_graph_depend(CUgraphNode node, CUgraphNode on)
{
    if (node->count == node->room) {
        size_t room = node->room == 0 ? 4 : 2 * node->room;
        CUgraphNode *grown = realloc(node->dependencies, room * sizeof *grown);
        if (grown == NULL)
            return false;
        node->dependencies = grown;
        node->room = room;
    }
    node->dependencies[node->count++] = on;
    return true;
}

CUgraphNode sim_graph_add(CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies, size_t count)
{
    CUgraphNode node = sim_handle_new(SIM_NODE, sizeof *node);
    if (node == NULL || !append_node(graph, node))
        return NULL;
    node->type = type;
    node->graph = graph;
    node->id = atomic_fetch_add(&sim.ids, 1) + 1;
    for (size_t i = 0; i < count; i++)
        if (!sim_graph_depend(node, dependencies[i]))
            return NULL;
    return node;
}

static void free_node(CUgraphNode node)
{
    if (node->child != NULL)
        sim_graph_free(node->child);
    sim_graph_memory_release(node->memory);
    sim_arguments_release(node->arguments);
    free(node->dependencies);
    sim_handle_free(node);
}

void sim_graph_free(CUgraph graph)
{
    for (size_t i = 0; i < graph->count; i++)
        free_node(graph->nodes[i]);
    for (unsigned i = 0; i < graph->object_count; i++)
        sim_user_object_release(graph->objects[i].object, graph->objects[i].count);
    free(graph->nodes);
    sim_handle_free(graph);
}

CUresult sim_graph_is_valid(CUgraph graph)
{
    SIM_ENTER();
    return sim_is(graph, SIM_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_graph_node_is_valid(CUgraphNode node)
{
    SIM_ENTER();
    return sim_is(node, SIM_NODE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
    SIM_ENTER();
    if (graph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = sim_graph_new();
    return *graph != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SIM_TRY(sim_graph_is_valid(graph));
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

/* ---- clones ---- */

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
    SIM_TRY(sim_graph_is_valid(original));
    if (clone == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = sim_graph_new();
    if (copy == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < original->count; i++) {
        CUgraphNode from = original->nodes[i], to = sim_graph_add(copy, from->type, NULL, 0);
        if (to == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        to->id = from->id;
        to->op = from->op;
        to->params = from->params;
        to->context = from->context;
        to->memory = sim_graph_memory_retain(from->memory);
        to->arguments = sim_arguments_retain(from->arguments);
        from->mark = (uint32_t)i;
        if (from->child != NULL)
            SIM_TRY(cuGraphClone(&to->child, from->child));
    }
    for (size_t i = 0; i < original->count; i++)
        for (size_t d = 0; d < original->nodes[i]->count; d++)
            if (!sim_graph_depend(copy->nodes[i], copy->nodes[original->nodes[i]->dependencies[d]->mark]))
                return CUDA_ERROR_OUT_OF_MEMORY;
    *clone = copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
    SIM_TRY(sim_graph_is_valid(clone));
    SIM_TRY(sim_graph_node_is_valid(original));
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < clone->count; i++) {
        if (clone->nodes[i]->id == original->id) {
            *node = clone->nodes[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- single nodes ---- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    SIM_TRY(sim_graph_node_is_valid(node));
    if (type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    SIM_TRY(sim_graph_node_is_valid(node));
    CUgraph graph = node->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->count; i++) {
        while (sim_graph_cut_edge(graph->nodes[i], node))
            ;
        if (graph->nodes[i] != node)
            graph->nodes[kept++] = graph->nodes[i];
    }
    graph->count = kept;
    free_node(node);
    return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    SIM_TRY(sim_graph_is_valid(graph));
    (void)flags;
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    fprintf(file, "digraph g%llu {\n", (unsigned long long)graph->id);
    for (size_t i = 0; i < graph->count; i++) {
        fprintf(file, "  n%llu [label=\"type %d\"];\n", (unsigned long long)graph->nodes[i]->id, (int)graph->nodes[i]->type);
        for (size_t d = 0; d < graph->nodes[i]->count; d++)
            fprintf(file, "  n%llu -> n%llu;\n", (unsigned long long)graph->nodes[i]->dependencies[d]->id, (unsigned long long)graph->nodes[i]->id);
    }
    fprintf(file, "}\n");
    return fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
