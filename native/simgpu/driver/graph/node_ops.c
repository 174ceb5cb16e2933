/* The parameters of nodes become operations; those of kernels in stream/launch.c. */
#include "driver/graph/graph.h"

CUresult sim_node_copy_op(const CUDA_MEMCPY3D *p, struct sim_op *op)
{
    *op = (struct sim_op){.kind = SIM_OP_COPY};
    return sim_copy_3d(p, &op->u.copy);
}

CUresult sim_node_memset_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 || p->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_memory_at(p->dst) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = SIM_OP_MEMSET};
    op->u.memset.at = (char *)(uintptr_t)p->dst;
    op->u.memset.pitch = p->pitch;
    op->u.memset.width = p->width;
    op->u.memset.rows = p->height;
    op->u.memset.value = p->value;
    op->u.memset.element = p->elementSize;
    return CUDA_SUCCESS;
}

CUresult sim_node_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sim_op *op)
{
    if (p == NULL || p->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = SIM_OP_HOST};
    op->u.host.function = p->fn;
    op->u.host.data = p->userData;
    return CUDA_SUCCESS;
}

CUresult sim_node_event_op(CUevent event, uint32_t kind, struct sim_op *op)
{
    if (!sim_is(event, SIM_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    *op = (struct sim_op){.kind = kind};
    op->u.event.event = event;
    return CUDA_SUCCESS;
}
