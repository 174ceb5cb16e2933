#include "suspend/suspension.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/options.h"
#include "client/tell.h"
#include "gate/gate.h"
#include "helper/helper.h"
#include "helper/wake.h"
#include "lookup/real.h"
#include "suspend/card_room.h"
#include "suspend/journey.h"
#include "suspend/passage.h"

enum { CHECKPOINTS_SINCE = 12080 };
#define LOOK_NS (5 * NVS_MS)
#define PLANNED_WAIT_NS (3000 * NVS_MS)    /* for room that the scheduler says is there */
#define UNPLANNED_WAIT_NS (60000 * NVS_MS) /* without a scheduler: after it a line says why the process waits */

/* Only cleared once the helper runs, and only while the process is on the card: a thread that reads it as false goes to the driver without
 * being counted (nvs_passage_enter). Pairs with nvs_suspension_left, which reads it after it found nobody inside: a thread inside clears it
 * before it leaves. A thread that reads a stale true waits outside at most until the passage opens, which is after the store. */
static _Atomic bool is_used;
static bool has_begun_waiting, has_said_wait, wants_open;
static int64_t waits_since_ns;
static uint64_t saved_bytes;

bool nvs_suspension_is_asked_for(void) { return nvs_options()->memory_mode == NVS_MODE_CHECKPOINT && nvs_gpu_count <= 1; }
bool nvs_suspension_is_used(void) { return atomic_load(&is_used); }
bool nvs_suspension_is_on_card(void) { return nvs_journey_location() == NVS_LOCATION_CARD; }

static const char *missing(void)
{
    int version = 0;
    if (!nvs_real_has((const void *const *)&nvs_real.cuCheckpointProcessLock) || nvs_real.cuDriverGetVersion(&version) != CUDA_SUCCESS
        || version < CHECKPOINTS_SINCE)
        return "the driver has no checkpoints (they need driver 570 on x86_64)";
    if (nvs_gpu_count != 1)
        return "the process sees several GPUs (set CUDA_VISIBLE_DEVICES to one)";
    return nvs_gpus[0].kind == NVS_GPU_KIND_MIG ? "MIG instances have no checkpoints" : NULL;
}

void nvs_suspension_setup(void)
{
    if (nvs_options()->memory_mode != NVS_MODE_CHECKPOINT)
        return;
    const char *why = missing();
    if (why)
        nvs_warn("NVSHARE_MEMORY_MODE=checkpoint is not possible: %s. The memory of this process stays native and cannot be evicted", why);
    atomic_store(&is_used, !why);
}

void nvs_suspension_unfit(const char *what)
{
    if (!atomic_exchange(&is_used, false))
        return;
    nvs_warn("this process uses %s and cannot be suspended: its memory stays native and cannot be evicted", what);
    nvs_passage_open(); /* the caller is a thread inside, or the helper: the process is on the card */
    nvs_wake_helper();
}

uint8_t nvs_suspension_mode(void)
{
    if (atomic_load(&is_used))
        return NVS_MEMORY_KIND_CHECKPOINT;
    if (nvs_options()->memory_mode == NVS_MODE_CHECKPOINT)
        return NVS_MEMORY_KIND_NOT_SUSPENDED;
    return nvs_options()->memory_mode == NVS_MODE_NATIVE ? NVS_MEMORY_KIND_NATIVE : NVS_MEMORY_KIND_MANAGED;
}

static uint64_t bytes_on(struct nvs_gpu *gpu)
{
    uint64_t contexts = atomic_load(&gpu->contexts);
    nvs_lock_take(&gpu->account_lock);
    uint64_t bytes = nvs_account_on_card(&gpu->account, contexts);
    nvs_lock_give(&gpu->account_lock);
    return bytes;
}

/* ---- the end of a turn ---- */

/* The memory stays on the card. The scheduler must know this before the lock is released. */
static bool stay(void)
{
    atomic_store(&is_used, false);
    nvs_passage_open();
    nvs_tell_memory_mode(&nvs_helper_client, nvs_suspension_mode());
    return true;
}

bool nvs_suspension_left(struct nvs_gpu *gpu)
{
    enum nvs_location at = nvs_journey_location();
    if (at != NVS_LOCATION_CARD)
        return at == NVS_LOCATION_AWAY || at == NVS_LOCATION_LOST;
    if (nvs_options()->memory_mode != NVS_MODE_CHECKPOINT)
        return true;
    if (!atomic_load(&is_used) || nvs_journey_is_exiting())
        return stay();
    if (!nvs_passage_close())
        return false;
    if (!atomic_load(&is_used))
        return stay(); /* the last thread inside made it unfit */
    saved_bytes = bytes_on(gpu);
    if (!atomic_load(&gpu->contexts))
        return true; /* there is nothing on the card */
    if (nvs_journey_begin(true))
        return false;
    nvs_warn("%s: no thread can be started to suspend this process: its memory stays native and cannot be evicted", gpu->label);
    return stay();
}

void nvs_suspension_close(void) { wants_open = false; }

/* ---- its beginning ---- */

/* A restore that fails for lack of memory cannot be repeated: the process has lost its memory. So the card's free memory is read
 * first. More than that is available, because managed memory of others can be evicted. So a process with a lock, for which the
 * scheduler has made room, tries the restore after a while. Without a lock no room was made: the process waits until enough memory
 * is free. */
static bool may_return(struct nvs_gpu *gpu, int64_t now)
{
    bool is_planned = nvs_helper_client.gpus[gpu->index].turn.state == NVS_TURN_HOLDING;
    if (!has_begun_waiting) {
        waits_since_ns = now;
        nvs_card_room_forget();
    }
    has_begun_waiting = true;
    if (nvs_card_room(gpu, saved_bytes, now) == NVS_ROOM_SUFFICES || (is_planned && now - waits_since_ns > PLANNED_WAIT_NS))
        return true;
    if (!is_planned && now - waits_since_ns > UNPLANNED_WAIT_NS && !has_said_wait) {
        has_said_wait = true;
        nvs_warn("%s: this process is suspended and waits until the card has room for its memory: there is no scheduler that makes room",
                 gpu->label);
    }
    return false;
}

/* While the program exits, the process is not brought back, and a lock that it gets is released. */
static int64_t go_on(struct nvs_gpu *gpu, int64_t now)
{
    enum nvs_location at = nvs_journey_location();
    if (!wants_open || at == NVS_LOCATION_LEAVING || at == NVS_LOCATION_RETURNING || at == NVS_LOCATION_LOST)
        return NVS_NEVER;
    if (at == NVS_LOCATION_AWAY && nvs_journey_is_exiting()) {
        wants_open = false;
        nvs_client_yield(&nvs_helper_client, gpu->index);
        return NVS_NEVER;
    }
    if (at == NVS_LOCATION_AWAY) {
        if (may_return(gpu, now))
            nvs_journey_begin(false);
        return now + LOOK_NS;
    }
    wants_open = false;
    nvs_passage_open();
    nvs_gate_open(gpu);
    return NVS_NEVER;
}

void nvs_suspension_open(struct nvs_gpu *gpu)
{
    wants_open = true;
    has_begun_waiting = false;
    go_on(gpu, nvs_now_ns());
}

/* ---- what it led to ---- */

static void say_failed(const struct nvs_gpu *gpu, CUresult result)
{
    if (nvs_journey_location() == NVS_LOCATION_LOST) {
        nvs_warn("%s: the driver could not bring this process back (error %d). Its GPU memory is lost: start the program again", gpu->label,
                 (int)result);
        nvs_passage_refuse(CUDA_ERROR_OUT_OF_MEMORY);
        nvs_client_yield(&nvs_helper_client, gpu->index);
        return;
    }
    atomic_store(&is_used, false);
    nvs_warn("%s: the driver could not suspend this process (error %d): its memory stays native and cannot be evicted", gpu->label,
             (int)result);
    nvs_passage_open();
}

static void tell_journey(struct nvs_gpu *gpu)
{
    struct nvs_journey journey;
    if (!nvs_journey_ended(&journey))
        return;
    if (journey.bypass)
        nvs_suspension_unfit(journey.bypass);
    else if (journey.result == CUDA_SUCCESS)
        nvs_tell_moved(&nvs_helper_client, gpu->index, journey.to_host, saved_bytes, journey.ns);
    else
        say_failed(gpu, journey.result);
}

/* A thread wants more memory than the card has beside the others: with a turn of its own there may be room. */
static void answer_question(struct nvs_gpu *gpu)
{
    if (!nvs_passage_wants_yield())
        return;
    bool is_granted = nvs_client_yield(&nvs_helper_client, gpu->index);
    if (is_granted) {
        nvs_passage_close(); /* a thread that calls the driver from here on waits for the next turn */
        nvs_wake_helper();
    }
    nvs_passage_yielded(is_granted);
}

int64_t nvs_suspension_tick(struct nvs_gpu *gpu, int64_t now)
{
    if (!nvs_suspension_is_asked_for())
        return NVS_NEVER;
    tell_journey(gpu);
    answer_question(gpu);
    return go_on(gpu, now);
}

void nvs_suspension_exits(void) { nvs_journey_exits(); }

void nvs_suspension_ends(void)
{
    if (nvs_journey_location() != NVS_LOCATION_CARD)
        nvs_passage_refuse(CUDA_ERROR_DEINITIALIZED);
    else
        nvs_passage_open();
}

void nvs_suspension_forked(void)
{
    atomic_store(&is_used, false);
    has_begun_waiting = has_said_wait = wants_open = false;
    nvs_journey_forked();
    nvs_card_room_forked();
    nvs_passage_forked();
}
