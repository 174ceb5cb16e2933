#include "mover/graphs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancellation.h"
#include "base/lock.h"
#include "memory/ledger.h"
#include "mover/arguments.h"
#include "mover/chunk_set.h"

enum { MOST_NESTED = 16, MOST_NODES = 1 << 17 };
#define MOST_PLACES (UINT64_C(1) << 22) /* of all instances: 16 MiB */

struct uses {
    struct nvs_chunk_set chunks;
    bool is_known; /* false: it uses more than these, or may do so */
};

struct instance {
    struct uses uses;
    uint32_t marked; /* the stamp after the one in which all of it was marked */
};

static struct nvs_lock graphs_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_GRAPHS);
static struct nvs_ledger instances; /* the owner of an entry is its instance */
static uint64_t places;             /* of all instances */

/* ---- what nodes use ---- */

static void pointed(void *self, uint64_t address)
{
    struct uses *uses = self;
    uses->is_known &= nvs_chunk_set_pointed(&uses->chunks, &nvs_evidence, address);
}

static void copied(void *self, uint64_t address, uint64_t bytes)
{
    struct uses *uses = self;
    uses->is_known &= nvs_chunk_set_copied(&uses->chunks, &nvs_evidence, address, bytes);
}

static struct nvs_named into(struct uses *uses) { return (struct nvs_named){.pointer = pointed, .range = copied, .self = uses}; }

static void add_kernel(struct uses *uses, CUfunction function, void **params, void **extra)
{
    struct nvs_named named = into(uses);
    uses->is_known &= nvs_arguments_kernel(function, params, extra, &named);
}

static void add_copy(struct uses *uses, const CUDA_MEMCPY3D *copy)
{
    struct nvs_named named = into(uses);
    nvs_arguments_copy_3d(copy, &named);
}

static void add_memset(struct uses *uses, const CUDA_MEMSET_NODE_PARAMS *set)
{
    if (set->height)
        copied(uses, set->dst, (set->height - 1) * set->pitch + set->width * set->elementSize);
}

static CUfunction function_of(const CUDA_KERNEL_NODE_PARAMS *params) { return params->func ? params->func : (CUfunction)params->kern; }

/* Types of nodes that name no memory of ours: graphs allocate native memory, and batches of memory operations refuse managed memory. */
static bool names_nothing(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_HOST || (type >= CU_GRAPH_NODE_TYPE_EMPTY && type <= CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
}

static void add_graph(struct uses *uses, CUgraph graph, int depth, size_t *left);

static void add_node(struct uses *uses, CUgraphNode node, int depth, size_t *left)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    CUDA_KERNEL_NODE_PARAMS kernel = {0};
    CUDA_MEMCPY3D copy = {0};
    CUDA_MEMSET_NODE_PARAMS set = {0};
    CUgraph child = NULL;
    nvs_real.cuGraphNodeGetType(node, &type);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && nvs_real.cuGraphKernelNodeGetParams_v2(node, &kernel) == CUDA_SUCCESS)
        add_kernel(uses, function_of(&kernel), kernel.kernelParams, kernel.extra);
    else if (type == CU_GRAPH_NODE_TYPE_MEMCPY && nvs_real.cuGraphMemcpyNodeGetParams(node, &copy) == CUDA_SUCCESS)
        add_copy(uses, &copy);
    else if (type == CU_GRAPH_NODE_TYPE_MEMSET && nvs_real.cuGraphMemsetNodeGetParams(node, &set) == CUDA_SUCCESS)
        add_memset(uses, &set);
    else if (type == CU_GRAPH_NODE_TYPE_GRAPH && nvs_real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
        add_graph(uses, child, depth + 1, left);
    else if (!names_nothing(type))
        uses->is_known = false;
}

static void add_graph(struct uses *uses, CUgraph graph, int depth, size_t *left)
{
    size_t count = 0;
    CUresult result = nvs_real.cuGraphGetNodes(graph, NULL, &count);
    if (result == CUDA_SUCCESS && !count)
        return;
    bool is_readable = result == CUDA_SUCCESS && depth <= MOST_NESTED && count <= *left;
    CUgraphNode *nodes = is_readable ? calloc(count, sizeof *nodes) : NULL;
    if (!nodes || nvs_real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS) {
        uses->is_known = false;
        free(nodes);
        return;
    }
    *left -= count;
    for (size_t i = 0; i < count; i++)
        add_node(uses, nodes[i], depth, left);
    free(nodes);
}

static void add_any(struct uses *uses, const CUgraphNodeParams *params, size_t *left)
{
    if (params->type == CU_GRAPH_NODE_TYPE_KERNEL)
        add_kernel(uses, function_of(&params->u.kernel), params->u.kernel.kernelParams, params->u.kernel.extra);
    else if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        add_copy(uses, &params->u.memcpy.copyParams);
    else if (params->type == CU_GRAPH_NODE_TYPE_MEMSET)
        add_memset(uses, &(CUDA_MEMSET_NODE_PARAMS){.dst = params->u.memset.dst, .pitch = params->u.memset.pitch,
                       .elementSize = params->u.memset.elementSize, .width = params->u.memset.width, .height = params->u.memset.height});
    else if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        add_graph(uses, params->u.graph.graph, 0, left);
    else if (!names_nothing(params->type))
        uses->is_known = false;
}

/* ---- instances, with the lock held ---- */

static uint64_t hash_of(CUgraphExec exec) { return nvs_ledger_hash(NVS_KIND_GRAPH_EXEC, (uintptr_t)exec); }

static struct instance *find(CUgraphExec exec)
{
    struct nvs_ledger_entry *entry = nvs_ledger_find(&instances, hash_of(exec), NVS_KIND_GRAPH_EXEC, (uintptr_t)exec);
    return entry ? (struct instance *)(uintptr_t)entry->owner : NULL;
}

static void drop(CUgraphExec exec)
{
    struct nvs_ledger_entry entry;
    if (!nvs_ledger_take(&instances, hash_of(exec), NVS_KIND_GRAPH_EXEC, (uintptr_t)exec, &entry))
        return;
    struct instance *instance = (struct instance *)(uintptr_t)entry.owner;
    places -= instance->uses.chunks.capacity;
    nvs_chunk_set_free(&instance->uses.chunks);
    free(instance);
}

/* The instance has changed: it counts what it has now, or nothing if there is no room for it. */
static void count_again(struct instance *instance, size_t before)
{
    struct nvs_chunk_set *chunks = &instance->uses.chunks;
    instance->marked = 0;
    if (places - before + chunks->capacity > MOST_PLACES) {
        nvs_chunk_set_free(chunks);
        instance->uses.is_known = false;
    }
    places = places - before + chunks->capacity;
}

void nvs_graphs_instantiated(CUgraphExec exec, CUgraph graph)
{
    size_t left = MOST_NODES;
    struct instance *made = nvs_evidence.marks ? calloc(1, sizeof *made) : NULL;
    if (made) {
        made->uses.is_known = true;
        add_graph(&made->uses, graph, 0, &left);
    }
    struct nvs_ledger_entry entry = {.key = (uintptr_t)exec, .owner = (uintptr_t)made, .kind = NVS_KIND_GRAPH_EXEC};
    nvs_lock_take(&graphs_lock);
    drop(exec); /* it was there before, or its context was destroyed with it */
    bool is_kept = made && nvs_ledger_put(&instances, hash_of(exec), &entry);
    if (is_kept)
        count_again(made, 0);
    nvs_lock_give(&graphs_lock);
    if (made && !is_kept) {
        nvs_chunk_set_free(&made->uses.chunks);
        free(made);
    }
}

/* Takes what is in `more`. */
static void changed(CUgraphExec exec, struct uses *more)
{
    nvs_lock_take(&graphs_lock);
    struct instance *instance = find(exec);
    if (instance) {
        size_t before = instance->uses.chunks.capacity;
        bool has_room = nvs_chunk_set_merge(&instance->uses.chunks, &more->chunks);
        instance->uses.is_known &= has_room && more->is_known;
        count_again(instance, before);
    }
    nvs_lock_give(&graphs_lock);
    nvs_chunk_set_free(&more->chunks);
}

/* The body of each of these functions: ADD puts what the node uses into `more`. */
#define CHANGED(add) \
    struct uses more = {.is_known = true}; \
    if (!nvs_evidence.marks) \
        return; \
    add; \
    changed(exec, &more)

void nvs_graphs_kernel_changed(CUgraphExec exec, CUfunction function, void **params, void **extra)
{
    CHANGED(add_kernel(&more, function, params, extra));
}

void nvs_graphs_copy_changed(CUgraphExec exec, const CUDA_MEMCPY3D *copy) { CHANGED(add_copy(&more, copy)); }
void nvs_graphs_memset_changed(CUgraphExec exec, const CUDA_MEMSET_NODE_PARAMS *params) { CHANGED(add_memset(&more, params)); }

void nvs_graphs_child_changed(CUgraphExec exec, CUgraph child)
{
    size_t left = MOST_NODES;
    CHANGED(add_graph(&more, child, 0, &left));
}

void nvs_graphs_node_changed(CUgraphExec exec, const CUgraphNodeParams *params)
{
    size_t left = MOST_NODES;
    CHANGED(add_any(&more, params, &left));
}

void nvs_graphs_forget(CUgraphExec exec)
{
    if (!nvs_evidence.marks)
        return;
    nvs_lock_take(&graphs_lock);
    drop(exec);
    nvs_lock_give(&graphs_lock);
}

/* Marks of one stamp are the same: an instance is marked once in each, so that a launch costs a probe of the table. */
void nvs_graphs_mark(CUgraphExec exec)
{
    NVS_NO_CANCELLATION;
    uint32_t stamp = atomic_load_explicit(&nvs_evidence.stamp, memory_order_relaxed) + 1;
    nvs_lock_take(&graphs_lock);
    struct instance *instance = find(exec);
    bool is_known = instance && instance->uses.is_known;
    if (instance && instance->marked != stamp) {
        nvs_chunk_set_mark(&instance->uses.chunks, &nvs_evidence);
        instance->marked = stamp;
    }
    nvs_lock_give(&graphs_lock);
    if (!is_known)
        nvs_usage_blind(&nvs_evidence);
}

void nvs_graphs_forked(void)
{
    nvs_lock_reset(&graphs_lock);
    memset(&instances, 0, sizeof instances); /* it may have been half changed when we forked: left where it is */
    places = 0;
}
