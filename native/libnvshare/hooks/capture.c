/* Captures. A call that lets a stream begin to capture, or join a capture, is listed (gate/calls.h), so that an event of ours is never
 * recorded on a stream that has just begun to capture. Recording a graph does not need the GPU's lock; launching it does. */
#include <stdatomic.h>

#include "gate/calls.h"
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

/* With the lock held, which it gives back: lists the call and waits until no event of ours is being recorded in the context. */
static void list(struct nvs_call *call, const struct nvs_stream *stream)
{
    *call = (struct nvs_call){.kind = NVS_CALL_CAPTURES};
    if (stream)
        *call = (struct nvs_call){.context = stream->context, .handle = stream->handle, .kind = NVS_CALL_CAPTURES};
    nvs_call_list(call);
    nvs_calls_await_kind(call->context, NVS_CALL_RECORDS);
    nvs_lock_give(&nvs_streams_lock);
}

static void begin(struct nvs_call *call, CUstream stream, enum nvs_variant variant)
{
    uintptr_t handle = nvs_stream_handle(stream, variant);
    wait_for_drain();
    struct nvs_stream *known = nvs_stream_lock(handle, true);
    if (known && known->is_noted && !known->is_capturing) {
        nvs_drain_keep_event(known); /* a drain cannot ask the stream while it captures */
        nvs_lock_give(&nvs_streams_lock);
        known = nvs_stream_lock(handle, true);
    }
    list(call, known);
}

/* The stream's record is still there: the call uses it. */
static CUresult began(CUresult result, struct nvs_call *call)
{
    nvs_call_end(call);
    struct nvs_stream *known = nvs_stream_find(call->handle, call->context);
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
        struct nvs_call call; \
        begin(&call, st, variant); \
        return began(nvs_real.symbol args, &call); \
    }
#define BEGIN_PAIR(symbol, params, args) BEGIN(symbol, NVS_LEGACY, params, args) BEGIN(symbol##_ptsz, NVS_PTDS, params, args)

BEGIN_PAIR(cuStreamBeginCapture, (CUstream st), (st))
BEGIN_PAIR(cuStreamBeginCapture_v2, (CUstream st, CUstreamCaptureMode mode), (st, mode))
BEGIN_PAIR(cuStreamBeginCaptureToGraph, (CUstream st, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode mode), (st, g, d, e, n, mode))

BEGIN_PAIR(cuStreamBeginRecaptureToGraph, (CUstream st, CUstreamCaptureMode mode, CUgraph g, void *callback, void *data), (st, mode, g, callback, data))

/* The driver's answer does not say whether the stream still captures: ask. */
static CUresult ended(CUresult result, uintptr_t handle)
{
    bool is_capturing = nvs_stream_is_capturing(handle);
    struct nvs_stream *known = nvs_stream_lock(handle, false);
    if (known && known->is_capturing && !is_capturing) {
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

static CUresult joined(CUresult result, struct nvs_call *call)
{
    nvs_call_end(call);
    nvs_lock_give(&nvs_streams_lock);
    return result;
}

/* A stream that waits for an event of a capture joins the capture. That capture began before this call, so if there is none the call
 * need not be listed. */
#define WAIT_EVENT(symbol, variant) \
    CUresult symbol(CUstream st, CUevent e, unsigned flags) \
    { \
        NVS_PASS_UNLESS_READY(symbol(st, e, flags)); \
        if (NVS_LIKELY(atomic_load(&nvs_streams_capturing) == 0)) /* pairs with began: see streams.h */ \
            return nvs_real.symbol(st, e, flags); \
        NVS_NO_CANCELLATION; \
        struct nvs_call call; \
        list(&call, nvs_stream_lock(nvs_stream_handle(st, variant), true)); \
        return joined(nvs_real.symbol(st, e, flags), &call); \
    }
WAIT_EVENT(cuStreamWaitEvent, NVS_LEGACY)
WAIT_EVENT(cuStreamWaitEvent_ptsz, NVS_PTDS)
