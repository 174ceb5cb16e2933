/* Graphs: nodes, edges, clones. Executing them is in graph_exec.c, the kinds of nodes in graph_nodes.c. */
#include "graph.h"

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

static CUresult check(CUgraph graph)
{
    SIM_ENTER();
    return sim_is(graph, SIM_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_node(CUgraphNode node)
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
    SIM_TRY(check(graph));
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

/* ---- clones ---- */

CUresult cuGraphClone(CUgraph *clone, CUgraph original)
{
    SIM_TRY(check(original));
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
    SIM_TRY(check(clone));
    SIM_TRY(check_node(original));
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

/* ---- nodes and edges ---- */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    SIM_TRY(check_node(node));
    if (type == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

/* Collects into the caller's array of *count places: NULL asks for the number only. */
struct collector { CUgraphNode *nodes; size_t room, found; };

static void collect(struct collector *collector, CUgraphNode node)
{
    if (collector->nodes != NULL && collector->found < collector->room)
        collector->nodes[collector->found] = node;
    collector->found++;
}

static void finish(struct collector *collector, size_t *count)
{
    for (size_t i = collector->found; collector->nodes != NULL && i < collector->room; i++)
        collector->nodes[i] = NULL;
    *count = collector->nodes != NULL && collector->found > collector->room ? collector->room : collector->found;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_TRY(check(graph));
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct collector collector = {nodes, *count, 0};
    for (size_t i = 0; i < graph->count; i++)
        collect(&collector, graph->nodes[i]);
    finish(&collector, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SIM_TRY(check(graph));
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct collector collector = {nodes, *count, 0};
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->count == 0)
            collect(&collector, graph->nodes[i]);
    finish(&collector, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges, size_t *count)
{
    SIM_TRY(check(graph));
    if (count == NULL || (from == NULL) != (to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    struct collector sources = {from, *count, 0}, targets = {to, *count, 0};
    if (edges != NULL)
        memset(edges, 0, *count * sizeof *edges);
    for (size_t i = 0; i < graph->count; i++) {
        for (size_t d = 0; d < graph->nodes[i]->count; d++) {
            collect(&sources, graph->nodes[i]->dependencies[d]);
            collect(&targets, graph->nodes[i]);
        }
    }
    size_t both = *count;
    finish(&sources, &both);
    finish(&targets, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count) { return cuGraphGetEdges_v2(graph, from, to, NULL, count); }

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count)
{
    SIM_TRY(check_node(node));
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct collector collector = {nodes, *count, 0};
    if (edges != NULL)
        memset(edges, 0, *count * sizeof *edges);
    for (size_t i = 0; i < node->count; i++)
        collect(&collector, node->dependencies[i]);
    finish(&collector, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *edges, size_t *count)
{
    SIM_TRY(check_node(node));
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct collector collector = {nodes, *count, 0};
    if (edges != NULL)
        memset(edges, 0, *count * sizeof *edges);
    for (size_t i = 0; i < node->graph->count; i++)
        for (size_t d = 0; d < node->graph->nodes[i]->count; d++)
            if (node->graph->nodes[i]->dependencies[d] == node)
                collect(&collector, node->graph->nodes[i]);
    finish(&collector, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) { return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count); }
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) { return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count); }

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    SIM_TRY(check(graph));
    (void)edges;
    if (count > 0 && (from == NULL || to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!sim_is(from[i], SIM_NODE) || !sim_is(to[i], SIM_NODE) || from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!sim_graph_depend(to[i], from[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static bool cut_edge(CUgraphNode node, CUgraphNode on)
{
    for (size_t i = 0; i < node->count; i++) {
        if (node->dependencies[i] == on) {
            node->dependencies[i] = node->dependencies[--node->count];
            return true;
        }
    }
    return false;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    SIM_TRY(check(graph));
    (void)edges;
    for (size_t i = 0; i < count; i++)
        if (!sim_is(from[i], SIM_NODE) || !sim_is(to[i], SIM_NODE) || !cut_edge(to[i], from[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) { return cuGraphAddDependencies_v2(graph, from, to, NULL, count); }
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) { return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count); }

CUresult cuGraphDestroyNode(CUgraphNode node)
{
    SIM_TRY(check_node(node));
    CUgraph graph = node->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->count; i++) {
        while (cut_edge(graph->nodes[i], node))
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
    SIM_TRY(check(graph));
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
