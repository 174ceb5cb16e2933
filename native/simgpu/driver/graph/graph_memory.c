/* Memory that belongs to a graph: what its allocation nodes ask for, added by name or by allocating from a stream that
 * captures. It exists from when the node is made (CUDA takes it from the card when the graph is made executable) and is
 * the graph's until the graph and its last instance are gone: freeing it, in the graph or after a launch, gives nothing
 * back, because the graph may be launched again and finds it at the same address. */
#include "driver/graph/capture.h"
#include "driver/memory/pool.h"

#include <stdlib.h>

static CUresult new_memory(CUcontext context, CUDA_MEM_ALLOC_NODE_PARAMS *params, struct sim_graph_memory **made)
{
    struct sim_allocation *allocation;
    struct sim_graph_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_memory_new(context, SIM_TRACE_POOL, params->bytesize, &allocation);
    if (result != CUDA_SUCCESS) {
        free(memory);
        return result;
    }
    allocation->of_graph = true;
    params->dptr = allocation->base;
    memory->params = *params;
    memory->id = allocation->id;
    atomic_store(&memory->references, 1);
    *made = memory;
    return CUDA_SUCCESS;
}

struct sim_graph_memory *sim_graph_memory_retain(struct sim_graph_memory *memory)
{
    if (memory != NULL)
        atomic_fetch_add(&memory->references, 1);
    return memory;
}

void sim_graph_memory_release(struct sim_graph_memory *memory)
{
    if (memory == NULL || atomic_fetch_sub(&memory->references, 1) != 1)
        return;
    struct sim_allocation *allocation = sim_memory_at(memory->params.dptr);
    if (allocation != NULL && allocation->id == memory->id) /* its context may have taken it along */
        sim_memory_free(allocation);
    free(memory);
}

static bool is_of_graph(CUdeviceptr pointer)
{
    struct sim_allocation *allocation = sim_memory_at(pointer);
    return allocation != NULL && allocation->base == pointer && allocation->of_graph;
}

/* ---- nodes by name ---- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    CUcontext context;
    struct sim_graph_memory *memory;
    SIM_ENTER();
    if (params == NULL || params->bytesize == 0 || params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_primary_retain(&context, params->poolProps.location.id));
    SIM_TRY(new_memory(context, params, &memory));
    CUresult result = sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, dependencies, count);
    if (result != CUDA_SUCCESS) {
        sim_graph_memory_release(memory);
        return result;
    }
    (*node)->memory = memory;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *params = node->memory->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUdeviceptr pointer)
{
    SIM_ENTER();
    if (!is_of_graph(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_graph_add_node(node, graph, CU_GRAPH_NODE_TYPE_MEM_FREE, dependencies, count));
    (*node)->params.pointer = pointer;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    SIM_TRY(sim_graph_check_node(node, CU_GRAPH_NODE_TYPE_MEM_FREE));
    if (pointer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *pointer = node->params.pointer;
    return CUDA_SUCCESS;
}

/* ---- nodes by capture ---- */

static CUmemPoolProps properties_of(CUmemoryPool pool)
{
    if (!pool->is_default)
        return pool->properties;
    return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, pool->context->device}};
}

CUresult sim_capture_allocate(CUstream stream, CUmemoryPool pool, size_t bytes, CUdeviceptr *pointer)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = properties_of(pool), .bytesize = bytes};
    struct sim_graph_memory *memory;
    CUgraphNode node;
    SIM_TRY(new_memory(pool->context, &params, &memory));
    pthread_mutex_lock(&sim_capture_lock);
    CUresult result = sim_capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node);
    if (result == CUDA_SUCCESS)
        node->memory = memory;
    pthread_mutex_unlock(&sim_capture_lock);
    if (result != CUDA_SUCCESS) {
        sim_graph_memory_release(memory);
        return result;
    }
    *pointer = params.dptr;
    return CUDA_SUCCESS;
}

CUresult sim_capture_free(CUstream stream, CUdeviceptr pointer)
{
    CUgraphNode node;
    if (!is_of_graph(pointer))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim_capture_lock);
    CUresult result = sim_capture_node(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, &node);
    if (result == CUDA_SUCCESS)
        node->params.pointer = pointer;
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}
