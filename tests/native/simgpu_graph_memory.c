/* Memory that a graph owns: allocation and free nodes, added by name and by allocating from a stream that captures. */
#include "simgpu_check.h"

#define MiB ((size_t)1 << 20)
#define SIZE (64 * MiB)

static CUstream stream;

static size_t available(void)
{
    size_t left = 0, total = 0;
    OK(cuMemGetInfo_v2, &left, &total);
    return left;
}

static CUgraphNodeType type_of(CUgraphNode node)
{
    CUgraphNodeType type = 99;
    OK(cuGraphNodeGetType, node, &type);
    return type;
}

static void nodes_by_name(void)
{
    CUgraph graph = NULL;
    CUgraphNode memory = NULL, node = NULL;
    CUdeviceptr pointer = 0, other = 0;
    CUDA_MEM_ALLOC_NODE_PARAMS seen, alloc = {.poolProps = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}, .bytesize = SIZE};
    size_t before = available();
    OK(cuGraphCreate, &graph, 0);
    OK(cuGraphAddMemAllocNode, &memory, graph, NULL, 0, &alloc);
    OK(cuGraphMemAllocNodeGetParams, memory, &seen);
    TRUE_(seen.dptr == alloc.dptr && alloc.dptr != 0 && seen.bytesize == SIZE);
    OK(cuGraphAddMemFreeNode, &node, graph, &memory, 1, alloc.dptr);
    OK(cuGraphMemFreeNodeGetParams, node, &pointer);
    TRUE_(pointer == alloc.dptr);
    IS(BAD_VALUE, cuGraphMemAllocNodeGetParams, node, &seen);
    OK(cuMemAllocAsync, &other, MiB, stream);
    IS(BAD_VALUE, cuGraphAddMemFreeNode, &node, graph, NULL, 0, other); /* no graph's */
    alloc.bytesize = 0;
    IS(BAD_VALUE, cuGraphAddMemAllocNode, &memory, graph, NULL, 0, &alloc);
    alloc.bytesize = SIZE;
    IS(BAD_VALUE, cuGraphAddMemAllocNode, &memory, graph, &memory, 1000, NULL);
    OK(cuMemFreeAsync, other, stream);
    OK(cuStreamSynchronize, stream);
    OK(cuGraphDestroy, graph);
    TRUE_(available() == before);
}

/* Captures: allocate, fill, free if asked. The address, and the graph. */
static CUdeviceptr captured(CUmemoryPool pool, bool frees, CUgraph *graph)
{
    CUdeviceptr pointer = 0;
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL); /* no other call of the thread would be allowed */
    if (pool != NULL)
        OK(cuMemAllocFromPoolAsync, &pointer, SIZE, pool, stream);
    else
        OK(cuMemAllocAsync, &pointer, SIZE, stream);
    OK(cuMemsetD32Async, pointer, 7, SIZE / 4, stream);
    if (frees)
        OK(cuMemFreeAsync, pointer, stream);
    OK(cuStreamEndCapture, stream, graph);
    return pointer;
}

static void allocating_in_a_capture_makes_a_node(CUmemoryPool pool)
{
    CUgraph graph = NULL;
    CUgraphNode nodes[4] = {NULL}, before_free = NULL;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    CUdeviceptr freed = 0, pointer = captured(pool, true, &graph);
    size_t count = 4, one = 1;
    OK(cuGraphGetNodes, graph, nodes, &count);
    TRUE_(count == 3);
    TRUE_(type_of(nodes[0]) == CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    TRUE_(type_of(nodes[1]) == CU_GRAPH_NODE_TYPE_MEMSET);
    TRUE_(type_of(nodes[2]) == CU_GRAPH_NODE_TYPE_MEM_FREE);
    OK(cuGraphNodeGetDependencies, nodes[2], &before_free, &one);
    TRUE_(before_free == nodes[1]);
    OK(cuGraphMemAllocNodeGetParams, nodes[0], &params);
    TRUE_(params.dptr == pointer && params.bytesize == SIZE);
    TRUE_(params.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && params.poolProps.location.id == 0);
    OK(cuGraphMemFreeNodeGetParams, nodes[2], &freed);
    TRUE_(freed == pointer);
    OK(cuGraphDestroy, graph);
}

/* The instance keeps the memory when the graph goes, and gives it back when it goes itself. */
static void memory_lives_as_long_as_the_last_instance(void)
{
    CUgraph graph = NULL, clone = NULL;
    CUgraphExec exec = NULL, again = NULL;
    CUgraphExecUpdateResultInfo info;
    size_t before = available();
    volatile unsigned *value = (volatile unsigned *)(uintptr_t)captured(NULL, true, &graph);
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    OK(cuGraphExecUpdate_v2, exec, graph, &info);
    OK(cuGraphClone, &clone, graph);
    OK(cuGraphInstantiateWithFlags, &again, clone, 0);
    OK(cuGraphDestroy, graph);
    OK(cuGraphDestroy, clone);
    OK(cuGraphExecDestroy, again);
    for (int launch = 0; launch < 2; launch++) {
        value[0] = 0;
        OK(cuGraphLaunch, exec, stream);
        OK(cuStreamSynchronize, stream);
        TRUE_(value[0] == 7 && value[SIZE / 4 - 1] == 7);
    }
    TRUE_(before - available() == SIZE);
    OK(cuGraphExecDestroy, exec);
    TRUE_(available() == before);
}

/* What the graph does not free itself the program frees after a launch; the next launch has it again. */
static void freed_between_launches(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    size_t before = available();
    CUdeviceptr pointer = captured(NULL, false, &graph);
    OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
    OK(cuGraphLaunch, exec, stream);
    OK(cuMemFreeAsync, pointer, stream);
    OK(cuGraphLaunch, exec, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(*(volatile unsigned *)(uintptr_t)pointer == 7);
    OK(cuMemFree_v2, pointer);
    OK(cuGraphExecDestroy, exec);
    OK(cuGraphDestroy, graph);
    TRUE_(available() == before);
}

static void what_is_refused(void)
{
    CUgraph graph = NULL;
    CUdeviceptr outside = 0, pointer = 0;
    size_t before = available();
    OK(cuMemAllocAsync, &outside, SIZE, stream);
    OK(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    IS(BAD_VALUE, cuMemFreeAsync, outside, stream); /* in a capture only a graph's memory can be freed */
    IS(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync, &pointer, (size_t)1 << 42, stream);
    OK(cuMemAllocAsync, &pointer, SIZE, stream);
    IS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, stream);
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuMemAllocAsync, &pointer, SIZE, stream);
    IS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, stream, &graph);
    OK(cuMemFreeAsync, outside, stream);
    OK(cuStreamSynchronize, stream);
    TRUE_(available() == before); /* also what the invalid capture had */
}

/* A context has 2 MiB for code; each block beyond that is taken from the card, and given back. */
static void contexts_grow_with_modules_and_graphs(void)
{
    enum { MANY = 64 }; /* of each, 64 KiB by default */
    CUmodule modules[MANY];
    CUgraphExec execs[MANY];
    CUgraph graph = NULL;
    size_t before = available();
    OK(cuGraphCreate, &graph, 0);
    for (int i = 0; i < MANY; i++)
        OK(cuModuleLoadData, &modules[i], "an image of no known form");
    TRUE_(before - available() == 2 * MiB);
    for (int i = 0; i < MANY; i++)
        OK(cuGraphInstantiateWithFlags, &execs[i], graph, 0);
    TRUE_(before - available() == 6 * MiB);
    for (int i = 0; i < MANY; i++) {
        OK(cuGraphExecDestroy, execs[i]);
        OK(cuModuleUnload, modules[i]);
    }
    TRUE_(available() == before);
    OK(cuGraphDestroy, graph);
}

int main(void)
{
    CUmemoryPool pool = NULL;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    setenv("NVSHARE_SIM_SCALE", "0.1", 1);
    start();
    OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    OK(cuMemPoolCreate, &pool, &properties);
    nodes_by_name();
    allocating_in_a_capture_makes_a_node(NULL);
    allocating_in_a_capture_makes_a_node(pool);
    memory_lives_as_long_as_the_last_instance();
    freed_between_launches();
    what_is_refused();
    contexts_grow_with_modules_and_graphs();
    OK(cuMemPoolDestroy, pool);
    return done();
}
