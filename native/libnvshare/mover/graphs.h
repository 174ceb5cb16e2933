/* The memory that instances of graphs use. A launch of an instance names no memory; the parameters of its nodes do. They are read
 * once, when a graph is instantiated, and a launch marks the memory that they name (mover/usage.h). docs/decisions/0022-graphs.md.
 *
 * Called from the hooks, in any thread, after the driver's call has succeeded. No driver call is made while the lock is held. */
#ifndef NVS_GRAPHS_H
#define NVS_GRAPHS_H

#include "lookup/symbols.h"
#include "mover/evidence.h"

/* An instance of this graph was created, or was updated to this graph. */
void nvs_graphs_instantiated(CUgraphExec exec, CUgraph graph);
/* A node of the instance was changed. What it used before still counts as used. */
void nvs_graphs_kernel_changed(CUgraphExec exec, CUfunction function, void **params, void **extra);
void nvs_graphs_copy_changed(CUgraphExec exec, const CUDA_MEMCPY3D *copy);
void nvs_graphs_memset_changed(CUgraphExec exec, const CUDA_MEMSET_NODE_PARAMS *params);
void nvs_graphs_child_changed(CUgraphExec exec, CUgraph child);
void nvs_graphs_node_changed(CUgraphExec exec, const CUgraphNodeParams *params);
/* Before the driver destroys it: another one may get the handle at once. */
void nvs_graphs_forget(CUgraphExec exec);

void nvs_graphs_mark(CUgraphExec exec);
void nvs_graphs_forked(void);

static inline void nvs_graphs_launched(CUgraphExec exec)
{
    if (nvs_evidence.marks)
        nvs_graphs_mark(exec);
}

#endif
