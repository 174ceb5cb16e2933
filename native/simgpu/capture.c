/* The rules of stream capture.
 *
 * While a stream captures, what is submitted to it becomes nodes of a graph. A second stream joins by waiting for an
 * event that was recorded in the capture, and has to be joined again before the end. What would make sense of the
 * capture impossible is refused and spoils it (`invalid`): synchronising or asking a capturing stream or its context, using
 * the legacy stream while a blocking stream captures, and, depending on the mode, calls that are unsafe because they may
 * synchronise behind the scenes. A spoilt capture refuses everything until it is ended, and its end gives no graph. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t sim_capture_lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_capture *sim_captures;
static __thread CUstreamCaptureMode thread_mode; /* GLOBAL to begin with */

/* ---- which calls are allowed ---- */

static bool forbids(const struct sim_capture *capture, uint64_t thread)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->thread == thread)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_unsafe(void)
{
    if (atomic_load_explicit(&sim.captures, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    uint64_t thread = sim_thread_token();
    pthread_mutex_lock(&sim_capture_lock);
    for (struct sim_capture *capture = sim_captures; capture != NULL; capture = capture->next) {
        if (!forbids(capture, thread))
            continue;
        capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

static CUresult spoil(struct sim_capture *capture, CUresult result)
{
    pthread_mutex_lock(&sim_capture_lock);
    if (capture->invalid && result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture->invalid = true;
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

/* Spoils the captures that streams of the context take part in; only those of blocking streams if asked so. */
static bool spoil_context(CUcontext context, bool blocking_only)
{
    bool any = false;
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next) {
        if (stream->capture == NULL || (blocking_only && (stream->flags & CU_STREAM_NON_BLOCKING) != 0))
            continue;
        spoil(stream->capture, CUDA_SUCCESS);
        any = true;
    }
    pthread_mutex_unlock(&context->lock);
    return any;
}

CUresult sim_capture_no_sync(CUstream stream)
{
    if (atomic_load_explicit(&sim.captures, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    if (stream->capture != NULL)
        return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream == stream->context->legacy && atomic_load(&stream->context->capturing_blocking) != 0)
        return sim_capture_legacy(stream->context);
    return CUDA_SUCCESS;
}

CUresult sim_capture_no_context_sync(CUcontext context)
{
    if (atomic_load_explicit(&context->capturing, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    return spoil_context(context, false) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult sim_capture_legacy(CUcontext context)
{
    return spoil_context(context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    SIM_ENTER();
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

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

/* What the getters of a captured node answer. */
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
        return spoil(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_lock(&sim_capture_lock);
    CUresult result = sim_capture_node(stream, type_of(op), &node);
    if (result == CUDA_SUCCESS && op->kind == SIM_OP_GRAPH) {
        node->child = graph_of(op->u.graph.exec);
    } else if (result == CUDA_SUCCESS) {
        node->op = *op;
        node->context = stream->context;
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
