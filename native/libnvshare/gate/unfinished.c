/* Theory of operation
 *
 * Each noted stream is asked (cuStreamQuery), the one that was unfinished last time first: most looks at a busy GPU are one question.
 * At most MOST_ASKED are asked at a look. If there are more noted streams, the next look goes on where this one stopped, and there is
 * no answer until one is found unfinished or a whole round has found none.
 *
 *   a stream that captures       is not asked, which would break the capture. What it had to do before has an event of its own
 *                                (nvs_drain_keep_event). No capture begins in the context while a stream of it is asked: the
 *                                same rule as for recording events (gate/calls.h)
 *   the legacy stream            is not asked while anything captures, for the same reason: unknown
 *   per-thread default streams   have no handle for another thread, and an event on the legacy stream would make the threads' work
 *                                wait for each other: unknown, so that the time in which the lock is held counts */
#include "gate/unfinished.h"

#include <stdatomic.h>
#include <string.h>

#include "gate/calls.h"
#include "gate/contexts.h"
#include "gate/drain.h"
#include "gate/events.h"
#include "gpu.h"

enum { MOST_ASKED = 64 };

/* Of each GPU; the helper's own. */
static struct round {
    uintptr_t handle; /* of the stream that was last found unfinished; 0: none */
    CUcontext context;
    uint32_t asked; /* so many noted streams, in the order of the list, were not found unfinished in this round */
    bool has_unknown; /* of one of them it is not known */
} rounds[NVS_MAX_GPUS];

static enum nvs_unfinished ask_driver(CUcontext context, uintptr_t handle)
{
    CUcontext popped;
    if (nvs_real.cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return NVS_UNFINISHED_UNKNOWN;
    CUresult result = CUDA_SUCCESS;
    if (handle == (uintptr_t)CU_STREAM_LEGACY || !nvs_stream_is_capturing(handle)) {
        CUstreamCaptureMode mode = nvs_events_relax();
        result = nvs_real.cuStreamQuery((CUstream)handle);
        nvs_events_restore(mode);
    }
    nvs_real.cuCtxPopCurrent_v2(&popped);
    bool is_unknown = result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_SUPPORTED;
    return result == CUDA_ERROR_NOT_READY ? NVS_UNFINISHED_SOME
         : is_unknown ? NVS_UNFINISHED_UNKNOWN
                      : NVS_UNFINISHED_NONE; /* after another error there is nothing to wait for */
}

static enum nvs_unfinished ask(const struct nvs_stream *stream)
{
    struct nvs_call call = {.context = stream->context, .handle = stream->handle, .kind = NVS_CALL_RECORDS};
    struct nvs_context_life life = nvs_context_life(stream->context);
    if (stream->handle == (uintptr_t)CU_STREAM_PER_THREAD || life.state == NVS_CONTEXT_IN_DOUBT
        || nvs_calls_have_kind(call.context, NVS_CALL_CAPTURES))
        return NVS_UNFINISHED_UNKNOWN;
    /* Exact: written under nvs_streams_lock, which is held. A capture that begins later waits for our call, which is listed as
     * NVS_CALL_RECORDS. Otherwise the question could break a capture. */
    if (stream->handle == (uintptr_t)CU_STREAM_LEGACY && atomic_load(&nvs_streams_capturing) != 0)
        return NVS_UNFINISHED_UNKNOWN;
    if (life.state == NVS_CONTEXT_GONE || stream->is_capturing)
        return NVS_UNFINISHED_NONE;
    nvs_call_begin(&call);
    enum nvs_unfinished seen = nvs_context_goes_on(&life) ? ask_driver(call.context, call.handle) : NVS_UNFINISHED_NONE;
    nvs_call_end(&call);
    return seen;
}

static bool is_noted(const struct nvs_stream *stream, const struct nvs_gpu *gpu) { return stream->gpu == gpu && stream->is_noted; }

/* The stream that was unfinished last time. */
static bool is_still_busy(struct round *round, const struct nvs_gpu *gpu)
{
    const struct nvs_stream *stream = round->handle ? nvs_stream_find(round->handle, round->context) : NULL;
    if (stream && is_noted(stream, gpu) && ask(stream) == NVS_UNFINISHED_SOME)
        return true;
    round->handle = 0;
    return false;
}

/* A stream that is asked about stays in the list: nvs_stream_gone waits for the call. */
static enum nvs_unfinished ask_all(struct round *round, const struct nvs_gpu *gpu)
{
    uint32_t at_number = 0, asked = 0;
    for (const struct nvs_stream *at = nvs_stream_first(); at; at = nvs_stream_after(at)) {
        if (!is_noted(at, gpu) || at_number++ < round->asked)
            continue;
        if (asked++ == MOST_ASKED) {
            round->asked = at_number - 1;
            return NVS_UNFINISHED_MORE;
        }
        enum nvs_unfinished one = ask(at);
        if (one == NVS_UNFINISHED_SOME) {
            *round = (struct round){.handle = at->handle, .context = at->context};
            return one;
        }
        round->has_unknown = round->has_unknown || one == NVS_UNFINISHED_UNKNOWN;
    }
    bool has_unknown = round->has_unknown;
    round->asked = 0;
    round->has_unknown = false;
    return has_unknown ? NVS_UNFINISHED_UNKNOWN : NVS_UNFINISHED_NONE;
}

enum nvs_unfinished nvs_unfinished(const struct nvs_gpu *gpu)
{
    struct round *round = &rounds[gpu->index];
    if (is_still_busy(round, gpu))
        return NVS_UNFINISHED_SOME;
    enum nvs_unfinished streams = ask_all(round, gpu);
    if (streams != NVS_UNFINISHED_SOME && nvs_drain_has_kept(gpu, MOST_ASKED))
        return NVS_UNFINISHED_SOME;
    return streams;
}

void nvs_unfinished_forked(void) { memset(rounds, 0, sizeof rounds); }
