/* Objects of the program that live as long as graphs refer to them. */
#include "driver/graph/graph.h"

struct CUuserObject_st { uint32_t kind; _Atomic uint32_t references; void *pointer; CUhostFn destroy; };

void sim_user_object_release(CUuserObject object, unsigned count)
{
    if (atomic_fetch_sub(&object->references, count) == count) {
        object->destroy(object->pointer);
        sim_handle_free(object);
    }
}

static CUresult check(CUgraph graph)
{
    SIM_ENTER();
    return sim_is(graph, SIM_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy, unsigned int count, unsigned int flags)
{
    SIM_ENTER();
    if (object == NULL || destroy == NULL || count == 0 || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    *object = sim_handle_new(SIM_USER_OBJECT, sizeof **object);
    if (*object == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*object)->pointer = pointer;
    (*object)->destroy = destroy;
    atomic_store(&(*object)->references, count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SIM_ENTER();
    if (!sim_is(object, SIM_USER_OBJECT) || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&object->references, count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SIM_ENTER();
    if (!sim_is(object, SIM_USER_OBJECT) || count == 0 || atomic_load(&object->references) < count)
        return CUDA_ERROR_INVALID_VALUE;
    sim_user_object_release(object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    SIM_TRY(check(graph));
    if (!sim_is(object, SIM_USER_OBJECT) || count == 0 || flags > 1 || graph->object_count == 16)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags == 0) /* 1 moves the caller's own references */
        atomic_fetch_add(&object->references, count);
    graph->objects[graph->object_count].object = object;
    graph->objects[graph->object_count++].count = count;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SIM_TRY(check(graph));
    for (unsigned i = 0; i < graph->object_count; i++) {
        if (graph->objects[i].object != object || graph->objects[i].count < count || count == 0)
            continue;
        graph->objects[i].count -= count;
        if (graph->objects[i].count == 0)
            graph->objects[i] = graph->objects[--graph->object_count];
        sim_user_object_release(object, count);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
