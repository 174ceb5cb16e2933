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
static struct sim_capture *in_progress;
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
    for (struct sim_capture *capture = in_progress; capture != NULL; capture = capture->next) {
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
    case SIM_OP_FREE:
        return CU_GRAPH_NODE_TYPE_MEM_FREE;
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
    } else if (op->kind == SIM_OP_FREE) {
        node->params.pointer = op->u.free.address;
    } else if (op->kind == SIM_OP_COPY) {
        const struct sim_copy *copy = &op->u.copy;
        node->params.copy = (CUDA_MEMCPY3D){
            .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = (CUdeviceptr)(uintptr_t)copy->from.base, .srcPitch = copy->from.pitch,
            .srcHeight = copy->from.height, .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = (CUdeviceptr)(uintptr_t)copy->to.base,
            .dstPitch = copy->to.pitch, .dstHeight = copy->to.height, .WidthInBytes = copy->width, .Height = copy->rows, .Depth = copy->slices};
    }
}

CUresult sim_capture_op(CUstream stream, struct sim_op *op)
{
    struct sim_capture *capture = stream->capture;
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (op->kind == SIM_OP_GRAPH || op->kind == SIM_OP_PREFETCH)
        return spoil(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_lane *lane = sim_capture_lane(capture, stream);
    CUgraphNode node = sim_graph_add(capture->graph, type_of(op), lane->tips, lane->count);
    if (node != NULL) {
        node->op = *op;
        node->context = stream->context;
        describe(node);
        sim_lane_set(lane, node);
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return node != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
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
    for (struct sim_capture *capture = in_progress; capture != NULL; capture = capture->next)
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

/* ---- beginning and ending ---- */

static CUresult begin(CUstream handle, CUgraph graph, const CUgraphNode *tips, size_t count, CUstreamCaptureMode mode, bool per_thread)
{
    static uint64_t ids;
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == stream->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct sim_capture *capture = calloc(1, sizeof *capture);
    CUgraph target = graph != NULL ? graph : sim_graph_new();
    if (capture == NULL || target == NULL) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct sim_capture){.mode = mode, .thread = sim_thread_token(), .origin = stream, .graph = target, .own_graph = graph == NULL};
    pthread_mutex_lock(&stream->context->lock);
    pthread_mutex_lock(&sim_capture_lock);
    bool busy = stream->capture != NULL;
    struct sim_lane *lane = busy ? NULL : sim_capture_join(capture, stream);
    if (lane != NULL) {
        capture->id = ++ids;
        capture->next = in_progress;
        in_progress = capture;
        atomic_fetch_add(&sim.captures, 1);
        for (size_t i = 0; i < count; i++)
            sim_lane_add(lane, tips[i]);
    }
    pthread_mutex_unlock(&sim_capture_lock);
    pthread_mutex_unlock(&stream->context->lock);
    if (lane == NULL) {
        if (graph == NULL)
            sim_graph_free(target);
        free(capture);
        return busy ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, NULL, NULL, 0, mode, false); }
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) { return begin(stream, NULL, NULL, 0, mode, true); }

static CUresult begin_to_graph(CUstream stream, CUgraph graph, const CUgraphNode *tips, size_t count, CUstreamCaptureMode mode, bool per_thread)
{
    SIM_ENTER();
    if (!sim_is(graph, SIM_GRAPH) || (count > 0 && tips == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, graph, tips, count, mode, per_thread);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode *tips, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    (void)edges;
    return begin_to_graph(stream, graph, tips, count, mode, false);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph, const CUgraphNode *tips, const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    (void)edges;
    return begin_to_graph(stream, graph, tips, count, mode, true);
}

/* Every node must lead to the origin stream's last ones: whatever is a tip of another stream must be followed by something. */
static bool is_joined(const struct sim_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        if (capture->lanes[i].stream == capture->origin)
            continue;
        for (size_t t = 0; t < capture->lanes[i].count; t++) {
            CUgraphNode tip = capture->lanes[i].tips[t];
            bool followed = false;
            for (size_t n = 0; n < capture->graph->count && !followed; n++)
                for (size_t d = 0; d < capture->graph->nodes[n]->count && !followed; d++)
                    followed = capture->graph->nodes[n]->dependencies[d] == tip;
            for (size_t o = 0; o < capture->count && !followed; o++)
                for (size_t k = 0; capture->lanes[o].stream == capture->origin && k < capture->lanes[o].count && !followed; k++)
                    followed = capture->lanes[o].tips[k] == tip;
            if (!followed)
                return false;
        }
    }
    return true;
}

/* Takes the streams out and forgets the capture. Both locks are held. */
static void dissolve(struct sim_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        CUstream stream = capture->lanes[i].stream;
        stream->capture = NULL;
        atomic_fetch_sub(&stream->context->capturing, 1);
        if ((stream->flags & CU_STREAM_NON_BLOCKING) == 0)
            atomic_fetch_sub(&stream->context->capturing_blocking, 1);
        free(capture->lanes[i].tips);
    }
    for (struct sim_capture **link = &in_progress; *link != NULL; link = &(*link)->next) {
        if (*link == capture) {
            *link = capture->next;
            break;
        }
    }
    atomic_fetch_sub(&sim.captures, 1);
    free(capture->lanes);
    free(capture);
}

static CUresult end(CUstream handle, CUgraph *graph, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    CUresult result = CUDA_SUCCESS;
    CUgraph made = NULL;
    pthread_mutex_lock(&stream->context->lock);
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_capture *capture = stream->capture;
    if (capture == NULL) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    } else if (capture->origin != stream) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != sim_thread_token()) {
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else {
        made = capture->graph;
        if (capture->invalid)
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!is_joined(capture))
            result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        if (result != CUDA_SUCCESS && capture->own_graph) {
            sim_graph_free(made);
            made = NULL;
        }
        dissolve(capture);
    }
    pthread_mutex_unlock(&sim_capture_lock);
    pthread_mutex_unlock(&stream->context->lock);
    if (graph != NULL)
        *graph = result == CUDA_SUCCESS ? made : NULL;
    return result;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) { return end(stream, graph, false); }
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) { return end(stream, graph, true); }
