/* What is submitted to a capturing stream becomes nodes of a graph. Which calls are allowed meanwhile: capture_rules.c. */
#include "driver/graph/capture.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t sim_capture_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_capture *sim_captures;

/* ---- streams in a capture and what their next node follows ---- */

struct sim_lane *sim_capture_lane(struct sim_capture *capture, CUstream stream)
{
    for (size_t i = 0; i < capture->count; i++)
        if (capture->lanes[i].stream == stream)
            return &capture->lanes[i];
    return NULL;
}

struct sim_lane *sim_capture_join(struct sim_capture *capture, CUstream stream)
{
    if (capture->count == capture->room) {
        size_t room = capture->room == 0 ? 8 : 2 * capture->room;
        struct sim_lane *grown = realloc(capture->lanes, room * sizeof *grown);
        if (grown == NULL)
            return NULL;
        capture->lanes = grown;
        capture->room = room;
    }
    struct sim_lane *lane = &capture->lanes[capture->count++];
    *lane = (struct sim_lane){.stream = stream};
    stream->capture = capture;
    atomic_fetch_add(&stream->context->capturing, 1);
    if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0)
        atomic_fetch_add(&stream->context->capturing_blocking, 1);
    return lane;
}

bool sim_lane_add(struct sim_lane *lane, CUgraphNode node)
{
    for (size_t i = 0; i < lane->count; i++)
        if (lane->tips[i] == node)
            return true;
    if (lane->count == lane->room) {
        size_t room = lane->room == 0 ? 4 : 2 * lane->room;
        CUgraphNode *grown = realloc(lane->tips, room * sizeof *grown);
        if (grown == NULL)
            return false;
        lane->tips = grown;
        lane->room = room;
    }
    lane->tips[lane->count++] = node;
    return true;
}

void sim_lane_set(struct sim_lane *lane, CUgraphNode node)
{
    lane->count = 0;
    sim_lane_add(lane, node);
}

/* ---- what is submitted ---- */

static CUgraphNodeType type_of(const struct sim_op *op)
{
    switch (op->kind) {
    case SIM_OP_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case SIM_OP_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case SIM_OP_MEMSET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case SIM_OP_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case SIM_OP_EVENT:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case SIM_OP_WAIT_EVENT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case SIM_OP_GRAPH:
        return CU_GRAPH_NODE_TYPE_GRAPH;
    case SIM_OP_WAIT_VALUE:
    case SIM_OP_WRITE_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    default:
        return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

/* What the getters of a captured node answer; those of kernel nodes have their arguments. */
static void describe(CUgraphNode node)
{
    const struct sim_op *op = &node->op;
    if (op->kind == SIM_OP_HOST) {
        node->params.host = (CUDA_HOST_NODE_PARAMS){.fn = op->u.host.function, .userData = op->u.host.data};
    } else if (op->kind == SIM_OP_MEMSET) {
        node->params.memset = (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)(uintptr_t)op->u.memset.at, .pitch = op->u.memset.pitch,
            .value = op->u.memset.value, .elementSize = op->u.memset.element, .width = op->u.memset.width, .height = op->u.memset.rows};
    } else if (op->kind == SIM_OP_EVENT || op->kind == SIM_OP_WAIT_EVENT) {
        node->params.event = op->u.event.event;
    } else if (op->kind == SIM_OP_COPY) {
        const struct sim_copy *copy = &op->u.copy;
        node->params.copy = (CUDA_MEMCPY3D){
            .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (CUdeviceptr)(uintptr_t)copy->from.base, .srcPitch = copy->from.pitch,
            .srcHeight = copy->from.height, .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = (CUdeviceptr)(uintptr_t)copy->to.base,
            .dstPitch = copy->to.pitch, .dstHeight = copy->to.height, .WidthInBytes = copy->width, .Height = copy->rows, .Depth = copy->slices};
    }
}

static CUresult own_arguments(CUgraphNode node)
{
    node->arguments = sim_arguments_new(node->op.u.kernel.given);
    node->op.u.kernel.given = NULL;
    return node->arguments != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A launch of a graph becomes a child graph: the instance's operations, one after the other. */
static CUgraph graph_of(const struct CUgraphExec_st *exec)
{
    CUgraph graph = sim_graph_new();
    CUgraphNode node = NULL;
    for (uint32_t i = 0; graph != NULL && i < exec->count; i++) {
        node = sim_graph_add(graph, exec->types[i], node != NULL ? &node : NULL, node != NULL);
        if (node == NULL)
            return NULL;
        node->op = exec->operations[i];
        node->memory = sim_graph_memory_retain(exec->memories[i]);
        node->arguments = sim_arguments_retain(exec->arguments[i]);
        describe(node);
    }
    return graph;
}

CUresult sim_capture_node(CUstream stream, CUgraphNodeType type, CUgraphNode *node)
{
    struct sim_capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    struct sim_lane *lane = sim_capture_lane(capture, stream);
    *node = sim_graph_add(capture->graph, type, lane->tips, lane->count);
    if (*node == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sim_lane_set(lane, *node);
    return CUDA_SUCCESS;
}

CUresult sim_capture_op(CUstream stream, struct sim_op *op)
{
    CUgraphNode node;
    if (op->kind == SIM_OP_PREFETCH)
        return sim_capture_invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_lock(&sim_capture_lock);
    CUresult result = sim_capture_node(stream, type_of(op), &node);
    if (result == CUDA_SUCCESS && op->kind == SIM_OP_GRAPH) {
        node->child = graph_of(op->u.graph.exec);
    } else if (result == CUDA_SUCCESS) {
        node->op = *op;
        node->context = stream->context;
        if (op->kind == SIM_OP_KERNEL)
            result = own_arguments(node);
        describe(node);
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

bool sim_event_is_captured(CUevent event) { return event->captured; }

CUresult sim_capture_record(CUstream stream, CUevent event)
{
    struct sim_capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_lane *lane = sim_capture_lane(capture, stream);
    CUgraphNode *nodes = malloc((lane->count + 1) * sizeof *nodes);
    if (nodes != NULL) {
        if (lane->count > 0)
            memcpy(nodes, lane->tips, lane->count * sizeof *nodes);
        free(event->capture_nodes);
        event->capture_nodes = nodes;
        event->capture_count = lane->count;
        event->capture = capture;
        event->capture_id = capture->id;
        event->captured = true;
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return nodes != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_in_progress(const struct sim_capture *wanted, uint64_t id)
{
    for (struct sim_capture *capture = sim_captures; capture != NULL; capture = capture->next)
        if (capture == wanted)
            return capture->id == id;
    return false;
}

/* The stream waits for an event; one of the two belongs to a capture. */
CUresult sim_capture_wait(CUstream stream, CUevent event)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext context = stream->context;
    pthread_mutex_lock(&context->lock);
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_capture *own = stream->capture;
    bool live = event->captured && is_in_progress(event->capture, event->capture_id);
    struct sim_lane *lane = own != NULL ? sim_capture_lane(own, stream) : NULL;
    if (own != NULL && own->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (own != NULL && !live) {
        own->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    } else if (own != NULL && event->capture != own) {
        own->invalid = event->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (own == NULL && stream == context->legacy) {
        if (live)
            event->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else if (!live) {
        result = CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
    } else if (lane == NULL && (lane = sim_capture_join(event->capture, stream)) == NULL) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; result == CUDA_SUCCESS && i < event->capture_count; i++)
        if (!sim_lane_add(lane, event->capture_nodes[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim_capture_lock);
    pthread_mutex_unlock(&context->lock);
    return result;
}
