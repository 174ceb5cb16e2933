#include "mover/mover.h"

#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "gate/contexts.h"
#include "gate/events.h"
#include "helper/deputy.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "mover/evidence.h"
#include "mover/plan.h"
#include "mover/prefetch_effect.h"
#include "mover/working_set.h"
#include "wire.h"

enum { IN_FLIGHT = 4, MOST_SLICES = 1 << 16, MOST_BLOCKS = 1 << 16 };
#define LOOK_NS (NVS_MS / 5)

struct flight {
    CUevent begin, end;
    uint64_t address, bytes;
    int64_t submit_ns; /* how long its submission took */
    bool is_sure; /* we know that it has to move */
    unsigned watch; /* of its allocation, from before its submission until it has arrived (mover/usage.h) */
};

static struct mover {
    bool is_moving, to_host, has_warned;
    bool has_next, next_to_host; /* a move that begins when the present one has ended */
    uint64_t next_bytes;
    struct nvs_slice *slices;
    size_t count, at;
    uint64_t asked_bytes, sure_bytes; /* what had to move and whose time says whether it did, and what of it took its time */
    uint64_t moved_bytes;
    uint64_t left_bytes; /* what could be on the card when the move was planned, less what has arrived on the host */
    int64_t began_ns;
    struct nvs_prefetch_effect effect;
    struct nvs_context_id context; /* of the stream and the events */
    CUstream stream;
    struct flight flights[IN_FLIGHT];
    unsigned first, flying;
} movers[NVS_MAX_GPUS];

/* ---- what to move ---- */

static bool is_blind(void) { return !nvs_evidence_sees_launches() || nvs_usage_is_blind(&nvs_evidence, UINT32_MAX); }

/* The slices, and for a move to the host how much could be on the card before it. */
static void plan(struct mover *mover, const struct nvs_gpu *gpu, uint64_t bytes)
{
    mover->at = mover->count = 0;
    mover->left_bytes = NVS_MAX_BYTES;
    if (!mover->slices)
        mover->slices = nvs_pages(MOST_SLICES * sizeof *mover->slices);
    struct nvs_block *blocks = nvs_pages(MOST_BLOCKS * sizeof *blocks);
    if (!mover->slices || !blocks)
        return;
    size_t count = nvs_entries_blocks(gpu, blocks, MOST_BLOCKS);
    if (mover->to_host && count < MOST_BLOCKS)
        mover->left_bytes = nvs_working_set_ever(&nvs_evidence, blocks, count, is_blind());
    mover->count = nvs_plan_move(&nvs_evidence, blocks, count, mover->to_host, bytes, mover->slices, MOST_SLICES);
    nvs_pages_free(blocks, MOST_BLOCKS * sizeof *blocks);
}

uint8_t nvs_mover_state(const struct nvs_gpu *gpu)
{
    if (nvs_options()->memory_mode != NVS_MODE_MANAGED)
        return NVS_MOVER_STATE_NATIVE;
    if (!gpu->can_be_managed)
        return NVS_MOVER_STATE_NO_PAGING;
    if (nvs_prefetch_effect_is_off(&movers[gpu->index].effect, nvs_now_ns()))
        return NVS_MOVER_STATE_NO_EFFECT;
    return nvs_evidence.marks ? NVS_MOVER_STATE_MOVES : NVS_MOVER_STATE_SWITCHED_OFF;
}

static void begin(struct nvs_gpu *gpu, bool to_host, uint64_t bytes)
{
    struct mover *mover = &movers[gpu->index];
    mover->to_host = to_host;
    mover->asked_bytes = mover->sure_bytes = mover->moved_bytes = 0;
    mover->began_ns = nvs_now_ns();
    plan(mover, gpu, bytes);
    mover->is_moving = mover->count > 0 || to_host; /* the scheduler gets an answer also if there is nothing to move */
}

void nvs_mover_start(struct nvs_gpu *gpu, bool to_host, uint64_t bytes)
{
    struct mover *mover = &movers[gpu->index];
    if (nvs_mover_state(gpu) != NVS_MOVER_STATE_MOVES || !bytes)
        return;
    nvs_mover_stop(gpu);
    if (mover->is_moving) {
        mover->has_next = true;
        mover->next_to_host = to_host;
        mover->next_bytes = bytes;
    } else {
        begin(gpu, to_host, bytes);
    }
}

void nvs_mover_stop(struct nvs_gpu *gpu)
{
    movers[gpu->index].at = movers[gpu->index].count;
    movers[gpu->index].has_next = false;
}

/* ---- the driver ---- */

/* They do not arrive: their context has ended. */
static void lose_flights(struct mover *mover)
{
    for (; mover->flying; mover->flying--) {
        nvs_usage_unwatch(&nvs_evidence, mover->flights[mover->first].watch, 0, 0, 0);
        mover->first = (mover->first + 1) % IN_FLIGHT;
    }
}

static CUresult make_event(CUevent *event) { return *event ? CUDA_SUCCESS : nvs_real.cuEventCreate(event, CU_EVENT_DEFAULT); }

/* In another context than before only if that one has ended (nvs_context_use): it took the stream and the events with it. What the
 * driver refuses to make is made at the next step. */
static CUresult prepare(struct mover *mover, const struct nvs_context_id *context)
{
    if (mover->context.number != context->number) {
        mover->context = *context;
        mover->stream = NULL;
        lose_flights(mover);
        memset(mover->flights, 0, sizeof mover->flights);
    }
    CUresult result = mover->stream ? CUDA_SUCCESS : nvs_real.cuStreamCreate(&mover->stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < IN_FLIGHT && result == CUDA_SUCCESS; i++) {
        result = make_event(&mover->flights[i].begin);
        if (result == CUDA_SUCCESS)
            result = make_event(&mover->flights[i].end);
    }
    return result;
}

CUresult nvs_mover_prefetch(const struct nvs_slice *slice, bool to_host, CUdevice gpu, CUstream stream)
{
    CUresult result = nvs_real.cuMemPrefetchAsync(slice->address, slice->bytes, to_host ? CU_DEVICE_CPU : gpu, stream);
    if (result != CUDA_ERROR_NOT_FOUND)
        return result;
    CUmemLocation location = {.type = to_host ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, .id = to_host ? 0 : gpu};
    return nvs_real.cuMemPrefetchAsync_v2(slice->address, slice->bytes, location, 0, stream);
}

bool nvs_mover_has(const struct nvs_slice *slice)
{
    struct nvs_ledger_entry entry;
    return nvs_entries_find_address(slice->base, &entry) && slice->address + slice->bytes <= entry.key + entry.bytes;
}

static CUresult fly(struct mover *mover, CUdevice gpu, const struct nvs_slice *slice, struct flight *flight)
{
    int64_t began_ns = nvs_now_ns();
    CUresult result = nvs_real.cuEventRecord(flight->begin, mover->stream);
    if (result == CUDA_SUCCESS)
        result = nvs_mover_prefetch(slice, mover->to_host, gpu, mover->stream);
    if (result == CUDA_SUCCESS)
        result = nvs_real.cuEventRecord(flight->end, mover->stream);
    if (result != CUDA_SUCCESS)
        return result;
    flight->address = slice->address;
    flight->bytes = slice->bytes;
    flight->submit_ns = nvs_now_ns() - began_ns;
    flight->is_sure = slice->is_away != mover->to_host;
    mover->flying++;
    return CUDA_SUCCESS;
}

/* Memory that was freed since the move was planned is left out. It may still be freed before the driver is called: the
 * driver then refuses the address, or moves a part of the allocation that was given it. */
static CUresult submit(struct mover *mover, CUdevice gpu)
{
    const struct nvs_slice *slice = &mover->slices[mover->at++];
    struct flight *flight = &mover->flights[(mover->first + mover->flying) % IN_FLIGHT];
    unsigned before = mover->flying;
    flight->watch = nvs_usage_watch(&nvs_evidence, slice->base);
    CUresult result = nvs_mover_has(slice) ? fly(mover, gpu, slice, flight) : CUDA_SUCCESS;
    if (mover->flying == before)
        nvs_usage_unwatch(&nvs_evidence, flight->watch, 0, 0, 0);
    return result;
}

/* Takes note of slices that have arrived. */
static void land(struct mover *mover)
{
    while (mover->flying) {
        struct flight *flight = &mover->flights[mover->first];
        float ms = 0;
        CUresult result = nvs_real.cuEventQuery(flight->end);
        if (result == CUDA_ERROR_NOT_READY)
            return;
        mover->first = (mover->first + 1) % IN_FLIGHT;
        mover->flying--;
        if (result != CUDA_SUCCESS || nvs_real.cuEventElapsedTime(&ms, flight->begin, flight->end) != CUDA_SUCCESS) {
            nvs_usage_unwatch(&nvs_evidence, flight->watch, 0, 0, 0);
            continue;
        }
        double submit_ms = (double)flight->submit_ns / NVS_MS;
        enum nvs_took took = flight->is_sure ? nvs_prefetch_effect_took(flight->bytes, (double)ms, submit_ms) : NVS_TOOK_UNKNOWN;
        mover->asked_bytes += took != NVS_TOOK_UNKNOWN ? flight->bytes : 0;
        mover->sure_bytes += took == NVS_TOOK_TIME ? flight->bytes : 0;
        mover->moved_bytes += took == NVS_TOOK_TIME || nvs_prefetch_effect_was_slow(flight->bytes, (double)ms) ? flight->bytes : 0;
        if (mover->to_host && mover->left_bytes != NVS_MAX_BYTES)
            mover->left_bytes -= flight->bytes < mover->left_bytes ? flight->bytes : mover->left_bytes;
        nvs_usage_moved(&nvs_evidence, flight->address, flight->bytes, mover->to_host);
        nvs_usage_unwatch(&nvs_evidence, flight->watch, flight->address, flight->bytes, NVS_MARK_AWAY);
    }
}

/* One step in the context; false if the driver refuses. */
static bool step(struct mover *mover, const struct nvs_context_id *context, CUdevice gpu)
{
    CUcontext popped;
    if (nvs_real.cuCtxPushCurrent_v2(context->handle) != CUDA_SUCCESS)
        return false;
    CUstreamCaptureMode mode = nvs_events_relax();
    CUresult result = prepare(mover, context);
    if (result == CUDA_SUCCESS)
        land(mover);
    while (result == CUDA_SUCCESS && mover->flying < IN_FLIGHT && mover->at < mover->count)
        result = submit(mover, gpu);
    nvs_events_restore(mode);
    nvs_real.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS;
}

/* The deputy answers the scheduler from before nvs_context_use, which asks the driver too, until after nvs_context_use_end. */
static enum nvs_context_use step_in_context(struct mover *mover, struct nvs_gpu *gpu)
{
    struct nvs_context_id context = mover->context;
    nvs_deputy_driver_begin();
    enum nvs_context_use use = nvs_context_use(gpu, &context);
    if (use == NVS_CONTEXT_USED) {
        if (!step(mover, &context, gpu->index))
            nvs_mover_stop(gpu);
        nvs_context_use_end();
    }
    nvs_deputy_driver_end();
    return use;
}

/* ---- the end of a move ---- */

static void notice_no_effect(struct mover *mover, const struct nvs_gpu *gpu)
{
    if (!nvs_prefetch_effect_moved(&mover->effect, nvs_now_ns(), mover->asked_bytes, mover->sure_bytes) || mover->has_warned)
        return;
    nvs_warn("%s: prefetching memory has no effect here; page faults move it instead", gpu->label);
    mover->has_warned = true;
}

static void end(struct mover *mover, struct nvs_gpu *gpu, struct nvs_moved *moved)
{
    *moved = (struct nvs_moved){.to_host = mover->to_host, .bytes = mover->moved_bytes, .left = mover->left_bytes,
                                .ns = nvs_now_ns() - mover->began_ns};
    mover->is_moving = false;
    nvs_debug("%s: moved %llu of %llu MiB %s in %lld us", gpu->label, (unsigned long long)mover->moved_bytes >> 20,
              (unsigned long long)mover->asked_bytes >> 20, mover->to_host ? "to the host" : "to the GPU", (long long)moved->ns / 1000);
    notice_no_effect(mover, gpu);
    if (mover->has_next && nvs_mover_state(gpu) == NVS_MOVER_STATE_MOVES)
        begin(gpu, mover->next_to_host, mover->next_bytes);
    mover->has_next = false;
}

int64_t nvs_mover_tick(struct nvs_gpu *gpu, int64_t now, struct nvs_moved *moved, bool *has_ended)
{
    struct mover *mover = &movers[gpu->index];
    *has_ended = false;
    if (!mover->is_moving)
        return INT64_MAX;
    enum nvs_context_use use = step_in_context(mover, gpu);
    if (use == NVS_CONTEXT_BUSY)
        return now + LOOK_NS;
    if (use == NVS_CONTEXT_NONE) {
        nvs_mover_stop(gpu);
        lose_flights(mover);
    }
    if (mover->flying || mover->at < mover->count)
        return now + LOOK_NS;
    end(mover, gpu, moved);
    *has_ended = true;
    return mover->is_moving ? now : INT64_MAX;
}

void nvs_mover_forked(void)
{
    memset(movers, 0, sizeof movers); /* the parent's streams and pages: left where they are */
    nvs_usage_forked(&nvs_evidence);
}
