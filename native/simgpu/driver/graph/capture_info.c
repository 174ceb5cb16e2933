/* Asking about a capture in progress, and steering what comes next in it. */
#include "driver/graph/capture.h"

struct answer { CUstreamCaptureStatus *status; cuuint64_t *id; CUgraph *graph; const CUgraphNode **tips; size_t *count; };

static CUresult info(CUstream handle, bool per_thread, const struct answer *answer)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (answer->status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == stream->context->legacy && atomic_load(&stream->context->capturing_blocking) != 0)
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* a query only: the capture stays valid */
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_capture *capture = stream->capture;
    *answer->status = capture == NULL ? CU_STREAM_CAPTURE_STATUS_NONE
                    : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (capture != NULL && !capture->invalid) {
        struct sim_lane *lane = sim_capture_lane(capture, stream);
        if (answer->id != NULL)
            *answer->id = capture->id;
        if (answer->graph != NULL)
            *answer->graph = capture->graph;
        if (answer->tips != NULL)
            *answer->tips = lane->tips;
        if (answer->count != NULL)
            *answer->count = lane->count;
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return CUDA_SUCCESS;
}

#define PAIR(name, params, ...) \
    CUresult name params { return info(stream, false, &(struct answer){__VA_ARGS__}); } \
    CUresult name##_ptsz params { return info(stream, true, &(struct answer){__VA_ARGS__}); }
PAIR(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), .status = status)
PAIR(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), .status = status, .id = id)
PAIR(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, size_t *count),
     .status = status, .id = id, .graph = graph, .tips = dependencies, .count = count)

static CUresult info_v3(CUstream stream, bool per_thread, const struct answer *answer, const CUgraphEdgeData **edges)
{
    if (edges != NULL)
        *edges = NULL; /* all edges are plain */
    return info(stream, per_thread, answer);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    return info_v3(stream, false, &(struct answer){status, id, graph, dependencies, count}, edges);
}

CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    return info_v3(stream, true, &(struct answer){status, id, graph, dependencies, count}, edges);
}

static CUresult update(CUstream handle, CUgraphNode *nodes, size_t count, unsigned flags, bool per_thread)
{
    CUstream stream;
    SIM_TRY(sim_stream_resolve(handle, per_thread, &stream));
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count > 0 && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim_capture_lock);
    struct sim_capture *capture = stream->capture;
    if (capture == NULL) {
        result = CUDA_ERROR_ILLEGAL_STATE;
    } else if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        struct sim_lane *lane = sim_capture_lane(capture, stream);
        if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
            lane->count = 0;
        for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
            if (!sim_is(nodes[i], SIM_NODE) || nodes[i]->graph != capture->graph || !sim_lane_add(lane, nodes[i]))
                result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&sim_capture_lock);
    return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags) { return update(stream, nodes, count, flags, false); }
CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags) { return update(stream, nodes, count, flags, true); }

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
    (void)edges;
    return update(stream, nodes, count, flags, false);
}

CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
    (void)edges;
    return update(stream, nodes, count, flags, true);
}
