/* Captures. nvs_streams_lock is held while a capture begins and while a stream may join one, so that an event of ours is never
 * recorded on a stream that has just begun to capture. Recording a graph does not need the GPU's lock; launching it does. */
#include <stdatomic.h>

#include "gate/drain.h"
#include "gate/streams.h"
#include "hooks/hooks.h"

#define HOLD_OFF_NS (50 * NVS_MS)

/* A drain waits for the current captures to end. New ones wait for the drain, so that it does not wait for ever; but not for long,
 * because a current capture may need another one to begin. */
static void wait_for_drain(void)
{
    int64_t began = nvs_now_ns();
    while (nvs_drain_waits_for_captures() && nvs_now_ns() - began < HOLD_OFF_NS)
        nvs_sleep_ns(NVS_MS / 4);
}

static struct nvs_stream *begin(CUstream stream, enum nvs_variant variant)
{
    wait_for_drain();
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *known = nvs_stream_find(nvs_stream_handle(stream, variant), true);
    if (known && known->is_noted && !known->is_capturing)
        nvs_drain_keep_event(known); /* a drain cannot ask the stream while it captures */
    return known;
}

static CUresult began(CUresult result, struct nvs_stream *known)
{
    if (result == CUDA_SUCCESS && known && !known->is_capturing) {
        known->is_capturing = true;
        atomic_fetch_add(&nvs_streams_capturing, 1);
    }
    nvs_lock_give(&nvs_streams_lock);
    return result;
}

#define BEGIN(symbol, variant, params, args) \
    CUresult symbol params \
    { \
        NVS_BEGIN_HOOK(symbol args); \
        struct nvs_stream *known = begin(st, variant); \
        return began(nvs_real.symbol args, known); \
    }
#define BEGIN_PAIR(symbol, params, args) BEGIN(symbol, NVS_LEGACY, params, args) BEGIN(symbol##_ptsz, NVS_PTDS, params, args)

BEGIN_PAIR(cuStreamBeginCapture, (CUstream st), (st))
BEGIN_PAIR(cuStreamBeginCapture_v2, (CUstream st, CUstreamCaptureMode mode), (st, mode))
BEGIN_PAIR(cuStreamBeginCaptureToGraph, (CUstream st, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode mode), (st, g, d, e, n, mode))

BEGIN_PAIR(cuStreamBeginRecaptureToGraph, (CUstream st, CUstreamCaptureMode mode, CUgraph g, void *callback, void *data), (st, mode, g, callback, data))

/* The driver's answer does not say whether the stream still captures: ask. */
static CUresult ended(CUresult result, uintptr_t handle)
{
    nvs_lock_take(&nvs_streams_lock);
    struct nvs_stream *known = nvs_stream_find(handle, false);
    if (known && known->is_capturing && !nvs_stream_is_capturing(known)) {
        known->is_capturing = false;
        atomic_fetch_sub(&nvs_streams_capturing, 1);
    }
    nvs_lock_give(&nvs_streams_lock);
    return result;
}

CUresult cuStreamEndCapture(CUstream st, CUgraph *g)
{
    NVS_BEGIN_HOOK(cuStreamEndCapture(st, g));
    return ended(nvs_real.cuStreamEndCapture(st, g), nvs_stream_handle(st, NVS_LEGACY));
}

CUresult cuStreamEndCapture_ptsz(CUstream st, CUgraph *g)
{
    NVS_BEGIN_HOOK(cuStreamEndCapture_ptsz(st, g));
    return ended(nvs_real.cuStreamEndCapture_ptsz(st, g), nvs_stream_handle(st, NVS_PTDS));
}

/* A stream that waits for an event of a capture joins the capture. That capture began before this call, so if there is none the lock
 * is not needed. */
#define WAIT_EVENT(symbol) \
    CUresult symbol(CUstream st, CUevent e, unsigned flags) \
    { \
        NVS_PASS_UNLESS_READY(symbol(st, e, flags)); \
        if (NVS_LIKELY(atomic_load(&nvs_streams_capturing) == 0)) /* pairs with began: see streams.h */ \
            return nvs_real.symbol(st, e, flags); \
        NVS_NO_CANCELLATION; \
        nvs_lock_take(&nvs_streams_lock); \
        CUresult result = nvs_real.symbol(st, e, flags); \
        nvs_lock_give(&nvs_streams_lock); \
        return result; \
    }
WAIT_EVENT(cuStreamWaitEvent)
WAIT_EVENT(cuStreamWaitEvent_ptsz)
