#include "mover/hold.h"

#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "gate/contexts.h"
#include "gate/events.h"
#include "helper/deputy.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "mover/advice.h"
#include "mover/evidence.h"
#include "mover/mover.h"
#include "wire.h"

enum { AT_ONCE = 4, MOST_SLICES = 1 << 16, MOST_BLOCKS = 1 << 16 };
#define LOOK_NS (NVS_MS / 5)

static struct hold {
    uint64_t want;
    bool is_due, is_working; /* something is to be done; the slices are being worked on */
    bool is_back;
    bool is_put_off; /* more is to be held when prefetches have an effect again */
    struct nvs_slice *slices;
    size_t count, at;
    struct nvs_context_id context; /* of the stream and the event */
    CUstream stream;
    CUevent event;  /* behind the last slices */
    bool is_flying; /* they have not arrived */
} holds[NVS_MAX_GPUS];

void nvs_hold_want(struct nvs_gpu *gpu, uint64_t bytes)
{
    struct hold *hold = &holds[gpu->index];
    if (!nvs_options()->live_shrink || !nvs_evidence.marks)
        return;
    hold->want = bytes;
    hold->is_due = true;
}

/* ---- what to do ---- */

/* How much is held. If `hold` is given, what is missing or too much is planned. */
static uint64_t look(const struct nvs_gpu *gpu, struct hold *hold)
{
    uint64_t held = 0;
    struct nvs_block *blocks = nvs_pages(MOST_BLOCKS * sizeof *blocks);
    if (!blocks)
        return 0;
    size_t count = nvs_entries_blocks(gpu, blocks, MOST_BLOCKS);
    held = nvs_plan_held(&nvs_evidence, blocks, count);
    if (hold) {
        hold->is_back = held > hold->want;
        bool can_work = hold->is_back || nvs_mover_state(gpu) == NVS_MOVER_STATE_MOVES;
        hold->is_put_off = !can_work;
        uint64_t bytes = !can_work ? 0 : hold->is_back ? held - hold->want : hold->want - held;
        hold->count = nvs_plan_hold(&nvs_evidence, blocks, count, hold->is_back, bytes, hold->slices, MOST_SLICES);
    }
    nvs_pages_free(blocks, MOST_BLOCKS * sizeof *blocks);
    return held;
}

static void begin(struct hold *hold, const struct nvs_gpu *gpu)
{
    hold->is_due = false;
    hold->is_working = true;
    hold->count = hold->at = 0;
    if (!hold->slices)
        hold->slices = nvs_pages(MOST_SLICES * sizeof *hold->slices);
    if (hold->slices)
        look(gpu, hold);
}

/* ---- the driver ---- */

static CUresult advise(const struct nvs_slice *slice, CUmem_advise advice, CUdevice place)
{
    return nvs_advice_give(slice->address, slice->bytes, advice, place);
}

static CUresult keep(const struct hold *hold, const struct nvs_slice *slice, CUdevice gpu)
{
    CUresult result = advise(slice, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
    if (result == CUDA_SUCCESS)
        result = advise(slice, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu);
    if (result == CUDA_SUCCESS)
        nvs_usage_held(&nvs_evidence, slice->address, slice->bytes, true);
    if (result == CUDA_SUCCESS && !slice->is_unused)
        result = nvs_mover_prefetch(slice, true, gpu, hold->stream);
    return result;
}

/* Without a lock it stays on the host until the mover or page faults bring it. The mark goes first: nvs_advice_not_held says why. */
static CUresult let_go(const struct hold *hold, const struct nvs_slice *slice, CUdevice gpu, bool is_open)
{
    nvs_usage_held(&nvs_evidence, slice->address, slice->bytes, false);
    CUresult result = nvs_advice_not_held(&nvs_gpus[gpu], slice->address, slice->bytes);
    if (result == CUDA_SUCCESS)
        result = advise(slice, CU_MEM_ADVISE_UNSET_ACCESSED_BY, gpu);
    bool is_brought = result == CUDA_SUCCESS && is_open && !slice->is_unused;
    nvs_usage_moved(&nvs_evidence, slice->address, slice->bytes, !slice->is_unused && !is_brought);
    return is_brought ? nvs_mover_prefetch(slice, false, gpu, hold->stream) : result;
}

/* What it was told of this address may be about another allocation now. The driver refuses if there is none. */
static void take_advice_back(const struct nvs_slice *slice, CUdevice gpu)
{
    nvs_advice_not_held(&nvs_gpus[gpu], slice->address, slice->bytes);
    advise(slice, CU_MEM_ADVISE_UNSET_ACCESSED_BY, gpu);
}

/* As prepare in mover/mover.c. */
static CUresult prepare(struct hold *hold, const struct nvs_context_id *context)
{
    if (hold->context.number != context->number) {
        hold->context = *context;
        hold->stream = NULL;
        hold->event = NULL;
        hold->is_flying = false;
    }
    CUresult result = hold->stream ? CUDA_SUCCESS : nvs_real.cuStreamCreate(&hold->stream, CU_STREAM_NON_BLOCKING);
    return result != CUDA_SUCCESS || hold->event ? result : nvs_real.cuEventCreate(&hold->event, CU_EVENT_DISABLE_TIMING);
}

/* The next slices, if those before them have arrived. A slice that the driver refuses was freed: the next plan knows. */
static CUresult advance(struct hold *hold, CUdevice gpu, bool is_open)
{
    if (hold->is_flying && nvs_real.cuEventQuery(hold->event) == CUDA_ERROR_NOT_READY)
        return CUDA_SUCCESS;
    hold->is_flying = false;
    if (hold->at == hold->count)
        return CUDA_SUCCESS;
    for (unsigned i = 0; i < AT_ONCE && hold->at < hold->count; i++) {
        const struct nvs_slice *slice = &hold->slices[hold->at++];
        unsigned watch = nvs_usage_watch(&nvs_evidence, slice->base);
        bool is_there = nvs_mover_has(slice);
        if (is_there)
            hold->is_back ? let_go(hold, slice, gpu, is_open) : keep(hold, slice, gpu);
        uint64_t flagged = is_there ? slice->bytes : 0;
        if (nvs_usage_unwatch(&nvs_evidence, watch, slice->address, flagged, NVS_MARK_AWAY | NVS_MARK_HELD) && is_there && !hold->is_back)
            take_advice_back(slice, gpu);
    }
    CUresult result = nvs_real.cuEventRecord(hold->event, hold->stream);
    hold->is_flying = result == CUDA_SUCCESS;
    return result;
}

static bool step(struct hold *hold, const struct nvs_context_id *context, CUdevice gpu, bool is_open)
{
    CUcontext popped;
    if (nvs_real.cuCtxPushCurrent_v2(context->handle) != CUDA_SUCCESS)
        return false;
    CUstreamCaptureMode mode = nvs_events_relax();
    CUresult result = prepare(hold, context);
    if (result == CUDA_SUCCESS)
        result = advance(hold, gpu, is_open);
    nvs_events_restore(mode);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS;
}

/* ---- time ---- */

static void stop(struct hold *hold)
{
    hold->at = hold->count;
    hold->is_flying = false;
}

/* As step_in_context in mover/mover.c. */
static enum nvs_context_use step_in_context(struct hold *hold, struct nvs_gpu *gpu, bool is_open)
{
    struct nvs_context_id context = hold->context;
    nvs_deputy_driver_begin();
    enum nvs_context_use use = nvs_context_use(gpu, &context);
    if (use == NVS_CONTEXT_USED) {
        if (!step(hold, &context, gpu->index, is_open))
            stop(hold);
        nvs_context_use_end();
    }
    nvs_deputy_driver_end();
    return use;
}

int64_t nvs_hold_tick(struct nvs_gpu *gpu, int64_t now_ns, bool is_open, uint64_t *held, bool *is_done)
{
    struct hold *hold = &holds[gpu->index];
    *is_done = false;
    if (hold->is_put_off && nvs_mover_state(gpu) == NVS_MOVER_STATE_MOVES)
        hold->is_due = true;
    if (!hold->is_working && !hold->is_due)
        return INT64_MAX;
    if (hold->is_due && !hold->is_flying)
        begin(hold, gpu);
    enum nvs_context_use use = step_in_context(hold, gpu, is_open);
    if (use == NVS_CONTEXT_BUSY)
        return now_ns + LOOK_NS;
    if (use == NVS_CONTEXT_NONE)
        stop(hold); /* all memory went with it */
    if (hold->is_flying || hold->at < hold->count || hold->is_due)
        return now_ns + LOOK_NS;
    hold->is_working = false;
    *held = look(gpu, NULL);
    nvs_debug("%s: %llu MiB are held on the host of %llu", gpu->label, (unsigned long long)*held >> 20, (unsigned long long)hold->want >> 20);
    *is_done = true;
    return INT64_MAX;
}

void nvs_hold_forked(void) { memset(holds, 0, sizeof holds); /* the parent's streams and pages: left where they are */ }
