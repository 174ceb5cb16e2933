/* Beginning and ending a capture. */
#include "driver/graph/capture.h"

#include <stdlib.h>

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
        capture->next = sim_captures;
        sim_captures = capture;
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

CUresult cuStreamBeginCapture(CUstream stream) { return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL, false); }
CUresult cuStreamBeginCapture_ptsz(CUstream stream) { return begin(stream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL, true); }
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
    for (struct sim_capture **link = &sim_captures; *link != NULL; link = &(*link)->next) {
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
