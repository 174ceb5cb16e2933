/* Captures. The streams' lock is held while one begins and while a stream may be drawn into one, so that an event of
 * ours is never recorded on a stream that has just begun to capture. Recording needs no turn; the launch of the graph
 * does. */
#include <stdatomic.h>

#include "drain.h"
#include "hooks.h"
#include "passage.h"
#include "streams.h"

#define HOLD_OFF_NS (50 * NVS_MS)

/* A drain waits for the captures under way to end. New ones must not keep it waiting for ever, nor wait for ever
 * themselves: a capture under way may need another one to begin. */
static void let_drain_pass(void)
{
    int64_t began = nvs_now_ns();
    while (nvs_drain_waits_for_captures() && nvs_now_ns() - began < HOLD_OFF_NS)
        nvs_sleep_ns(NVS_MS / 4);
}

static struct nvs_stream *begin(CUstream stream, enum nvs_variant variant)
{
    let_drain_pass();
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *known = nvs_stream_find(nvs_handle(stream, variant), true);
    if (known && known->is_noted && !known->is_capturing)
        nvs_drain_leave_orphan(known); /* what runs on it now cannot be asked for while it captures */
    return known;
}

static CUresult began(CUresult result, struct nvs_stream *known)
{
    if (result == CUDA_SUCCESS && known && !known->is_capturing) {
        known->is_capturing = true;
        atomic_fetch_add(&nvs_captures, 1);
    }
    nvs_lock_give(&nvs_streams_lock);
    return result;
}

#define BEGIN(symbol, variant, params, args) \
    CUresult symbol params \
    { \
        NVS_PASS_UNLESS_READY(symbol args); \
        struct nvs_stream *known = begin(st, variant); \
        return began(nvs_real.symbol args, known); \
    }
#define BEGIN_PAIR(symbol, params, args) BEGIN(symbol, NVS_LEGACY, params, args) BEGIN(symbol##_ptsz, NVS_PTDS, params, args)

BEGIN_PAIR(cuStreamBeginCapture, (CUstream st), (st))
BEGIN_PAIR(cuStreamBeginCapture_v2, (CUstream st, CUstreamCaptureMode mode), (st, mode))
BEGIN_PAIR(cuStreamBeginCaptureToGraph, (CUstream st, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode mode), (st, g, d, e, n, mode))

BEGIN_PAIR(cuStreamBeginRecaptureToGraph, (CUstream st, CUstreamCaptureMode mode, CUgraph g, void *callback, void *data), (st, mode, g, callback, data))

/* Whatever the answer was, what counts is whether the stream captures now. */
static CUresult ended(CUresult result, uintptr_t handle)
{
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *known = nvs_stream_find(handle, false);
    if (known && known->is_capturing && !nvs_stream_captures(known)) {
        known->is_capturing = false;
        atomic_fetch_sub(&nvs_captures, 1);
    }
    nvs_lock_give(&nvs_streams_lock);
    return result;
}

CUresult cuStreamEndCapture(CUstream st, CUgraph *g)
{
    NVS_PASS_UNLESS_READY(cuStreamEndCapture(st, g));
    return ended(nvs_real.cuStreamEndCapture(st, g), nvs_handle(st, NVS_LEGACY));
}

CUresult cuStreamEndCapture_ptsz(CUstream st, CUgraph *g)
{
    NVS_PASS_UNLESS_READY(cuStreamEndCapture_ptsz(st, g));
    return ended(nvs_real.cuStreamEndCapture_ptsz(st, g), nvs_handle(st, NVS_PTDS));
}

/* Waiting for an event of a capture draws the stream into it. That capture has begun before this call, so without
 * captures there is nothing to hold off. */
#define WAIT_EVENT(symbol) \
    CUresult symbol(CUstream st, CUevent e, unsigned flags) \
    { \
        NVS_PASS_UNLESS_READY(symbol(st, e, flags)); \
        if (NVS_LIKELY(atomic_load(&nvs_captures) == 0)) \
            return nvs_real.symbol(st, e, flags); \
        nvs_lock_take(&nvs_streams_lock); \
        CUresult result = nvs_real.symbol(st, e, flags); \
        nvs_lock_give(&nvs_streams_lock); \
        return result; \
    }
WAIT_EVENT(cuStreamWaitEvent)
WAIT_EVENT(cuStreamWaitEvent_ptsz)
