/* What a graph consists of: listing its nodes and edges, adding and removing edges. */
#include "driver/graph/graph.h"

#include <string.h>

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
    SIM_TRY(sim_graph_is_valid(graph));
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
    SIM_TRY(sim_graph_is_valid(graph));
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
    SIM_TRY(sim_graph_is_valid(graph));
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
    SIM_TRY(sim_graph_node_is_valid(node));
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
    SIM_TRY(sim_graph_node_is_valid(node));
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
    SIM_TRY(sim_graph_is_valid(graph));
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

bool sim_graph_cut_edge(CUgraphNode node, CUgraphNode on)
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
    SIM_TRY(sim_graph_is_valid(graph));
    (void)edges;
    for (size_t i = 0; i < count; i++)
        if (!sim_is(from[i], SIM_NODE) || !sim_is(to[i], SIM_NODE) || !sim_graph_cut_edge(to[i], from[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) { return cuGraphAddDependencies_v2(graph, from, to, NULL, count); }
CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count) { return cuGraphRemoveDependencies_v2(graph, from, to, NULL, count); }
