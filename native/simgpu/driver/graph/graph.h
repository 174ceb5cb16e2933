/* Graphs; shared by the files of this folder and the engine. */
#ifndef SIM_GRAPH_H
#define SIM_GRAPH_H

#include "driver/driver.h"

struct sim_graph_memory {
    _Atomic uint32_t references;     /* nodes and instances */
    uint64_t id;                     /* of the allocation at params.dptr */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
};

/* The parameters of a kernel, with the memory that they are in. */
struct sim_arguments {
    _Atomic uint32_t references;     /* nodes and instances */
    CUDA_KERNEL_NODE_PARAMS params;
    _Alignas(16) void *pointers[];   /* and the values behind them */
};

struct CUgraphNode_st {
    uint32_t kind;
    CUgraphNodeType type;
    CUgraph graph;
    uint64_t id;                     /* kept in clones and instances, so that they can be matched */
    struct sim_op op;
    CUgraphNode *dependencies;
    size_t count, room;
    CUgraph child;
    uint32_t mark;
    struct sim_graph_memory *memory; /* of an allocation node */
    struct sim_arguments *arguments; /* of a kernel node */
    union {                          /* as given, for the getters */
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS memset;
        CUDA_HOST_NODE_PARAMS host;
        CUdeviceptr pointer;
        CUevent event;
    } params;
    CUcontext context;
};

struct CUgraph_st {
    uint32_t kind;
    uint64_t id;
    CUgraphNode *nodes;
    size_t count, room;
    struct { CUuserObject object; unsigned count; } objects[16];
    unsigned object_count;
};

struct CUgraphExec_st {
    uint32_t kind;
    _Atomic uint32_t references;     /* the handle and every queued launch */
    uint64_t flags, graph_id;
    struct sim_code_charge charge;
    struct sim_op *operations;       /* in an order that respects the edges, child graphs included */
    uint64_t *ids;                   /* node ids of the operations */
    uint8_t *enabled;
    CUgraphNodeType *types;
    struct sim_graph_memory **memories; /* of allocation nodes, else NULL */
    struct sim_arguments **arguments;   /* of kernel nodes, else NULL */
    uint32_t count;
};

CUgraph sim_graph_new(void);
CUgraphNode sim_graph_add(CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies, size_t count);
bool sim_graph_depend(CUgraphNode node, CUgraphNode on);
bool sim_graph_cut_edge(CUgraphNode node, CUgraphNode on);
CUresult sim_graph_is_valid(CUgraph graph);
CUresult sim_graph_node_is_valid(CUgraphNode node);
/* With the caller's arguments checked. */
CUresult sim_graph_add_node(CUgraphNode *node, CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies, size_t count);
CUresult sim_graph_check_node(CUgraphNode node, CUgraphNodeType type);
struct sim_graph_memory *sim_graph_memory_retain(struct sim_graph_memory *memory);
void sim_graph_memory_release(struct sim_graph_memory *memory);
/* What a node does, if its parameters are valid. */
CUresult sim_node_copy_op(const CUDA_MEMCPY3D *p, struct sim_op *op);
CUresult sim_node_memset_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sim_op *op);
CUresult sim_node_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sim_op *op);
CUresult sim_node_event_op(CUevent event, uint32_t kind, struct sim_op *op);
/* Of a memset node; the form with a context has the same fields. */
static inline CUDA_MEMSET_NODE_PARAMS sim_node_memset(const CUgraphNodeParams *p)
{
    return (CUDA_MEMSET_NODE_PARAMS){p->u.memset.dst, p->u.memset.pitch, p->u.memset.value, p->u.memset.elementSize, p->u.memset.width, p->u.memset.height};
}
/* A copy, which owns all that it points to; NULL if there is no memory. */
struct sim_arguments *sim_arguments_new(const CUDA_KERNEL_NODE_PARAMS *given);
struct sim_arguments *sim_arguments_retain(struct sim_arguments *arguments);
void sim_arguments_release(struct sim_arguments *arguments);
void sim_graph_free(CUgraph graph);
void sim_user_object_release(CUuserObject object, unsigned count);

#endif
