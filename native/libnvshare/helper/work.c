/* Performs the client machine's decisions at the GPUs, and watches for idleness: small steps that never wait. */
#include "helper/work.h"

#include <stdatomic.h>

#include "client/tell.h"
#include "gate/gate.h"
#include "helper/deputy.h"
#include "helper/drains.h"
#include "helper/gpu_time.h"
#include "helper/helper.h"
#include "helper/reports.h"
#include "helper/wake.h"
#include "memory/pools.h"
#include "mover/hold.h"
#include "mover/mover.h"
#include "suspend/suspension.h"

#define WATCH_NS (10 * NVS_MS)    /* from one submission that was seen until the next is looked for */
#define BUSY_POLL_NS (2 * NVS_MS) /* while nothing is submitted, and work is unfinished */
#define POOL_POLL_NS (100 * NVS_MS)

static bool is_without_driver;

void nvs_work_leave_driver(void)
{
    is_without_driver = true;
    nvs_drains_leave_driver();
    nvs_gpu_time_leave_driver();
    nvs_suspension_ends();
}

void nvs_work_forked(void)
{
    is_without_driver = false;
    nvs_drains_forked();
    nvs_reports_forked();
    nvs_gpu_time_forked();
}

/* The scheduler wants to know when the process is idle, or the looker does: an idle process needs no looks. */
static bool is_watched_for(const struct nvs_gpu *gpu)
{
    return nvs_client_watches(&nvs_helper_client, gpu->index) || nvs_gpu_time_wants_watch(gpu);
}

static void end_watch(struct nvs_gpu *gpu)
{
    if (!gpu->is_watch_armed)
        return;
    gpu->is_watch_armed = false;
    atomic_store(&gpu->is_known_idle, false);
    nvs_gate_unwatch(gpu);
}

/* The answer of is_watched_for may have changed. */
static void look_at_watch(struct nvs_gpu *gpu)
{
    gpu->next_idle_poll_ns = 0;
    if (!is_watched_for(gpu))
        end_watch(gpu);
}

static void forget_watch(struct nvs_gpu *gpu)
{
    gpu->is_watch_armed = false;
    atomic_store(&gpu->is_known_idle, false);
    gpu->next_idle_poll_ns = 0;
}

static void close_gate(struct nvs_gpu *gpu)
{
    nvs_gate_close(gpu);
    nvs_suspension_close();
    forget_watch(gpu);
    if (nvs_suspension_is_used()) /* in mode checkpoint the process leaves the card whenever its gate closes */
        nvs_drains_begin(gpu, nvs_now_ns());
    nvs_mover_stop(gpu); /* what it moved was for the turn before */
}

static void open_gate(struct nvs_gpu *gpu)
{
    forget_watch(gpu);
    if (nvs_suspension_is_asked_for())
        nvs_suspension_open(gpu);
    else
        nvs_gate_open(gpu);
    nvs_mover_stop(gpu); /* what it moved was for the others' turn */
}

/* The marks are cleared first: a thread that changes something from here on wakes us again. Pairs with nvs_memory_changed and
 * account_changed in memory/memory.c. */
static void hand_in_figures(struct nvs_gpu *gpu)
{
    atomic_store(&gpu->memory_changed, false);
    nvs_reports_before_figures(gpu);
    uint32_t contexts = atomic_load(&gpu->contexts);
    nvs_lock_take(&gpu->account_lock);
    atomic_store(&gpu->is_urgent, false);
    nvs_client_figures(&nvs_helper_client, gpu->index, &gpu->account, contexts);
    nvs_lock_give(&gpu->account_lock);
}

void nvs_work_perform(struct nvs_gpu *gpu, enum nvs_effect_kind kind)
{
    const struct nvs_client_gpu *wanted = &nvs_helper_client.gpus[gpu->index];
    switch (kind) {
    case NVS_EFFECT_STOP_DRAIN: nvs_drains_stop(gpu); break;
    case NVS_EFFECT_CLOSE: close_gate(gpu); break;
    case NVS_EFFECT_DRAIN: nvs_drains_begin(gpu, nvs_now_ns()); break;
    case NVS_EFFECT_OPEN: open_gate(gpu); break;
    case NVS_EFFECT_WATCH: look_at_watch(gpu); break;
    case NVS_EFFECT_LET_ONE: nvs_drains_let_one(gpu, nvs_now_ns()); break;
    case NVS_EFFECT_MOVE_OUT: nvs_mover_start(gpu, true, wanted->move_bytes); break;
    case NVS_EFFECT_MOVE_IN: nvs_mover_start(gpu, false, wanted->move_bytes); break;
    case NVS_EFFECT_HOLD: nvs_hold_want(gpu, wanted->keep_bytes); break;
    case NVS_EFFECT_FIGURES: hand_in_figures(gpu); break;
    default: break; /* those of the process: helper/session.c */
    }
}

void nvs_work_close_gates(void)
{
    const struct nvs_client_out *out = &nvs_helper_client.out;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (out->gpus >> i & 1 && out->gpu_todo[i] & NVS_DO_CLOSE)
            nvs_gate_close(&nvs_gpus[i]);
    if (out->gpus)
        nvs_wake_helper();
}

static void arm_watch(struct nvs_gpu *gpu)
{
    nvs_gate_watch(gpu);
    gpu->is_watch_armed = true;
    gpu->is_past_threads = false;
}

/* How idleness is found: "Watching" in gate/gate.h. */
static int64_t tick_watch(struct nvs_gpu *gpu, int64_t now)
{
    bool has_worked = !gpu->is_watch_armed || !nvs_gate_is_watched(gpu);
    if (has_worked && atomic_exchange(&gpu->is_known_idle, false))
        nvs_client_busy(&nvs_helper_client, gpu->index);
    else if (now < gpu->next_idle_poll_ns)
        return gpu->next_idle_poll_ns;
    if (has_worked) {
        arm_watch(gpu);
        return gpu->next_idle_poll_ns = now + WATCH_NS;
    }
    if (atomic_load(&gpu->is_known_idle)) {
        nvs_client_idle(&nvs_helper_client, gpu->index); /* we may have known it before the scheduler wanted to */
        return NVS_NEVER;
    }
    if (!nvs_drains_advance(gpu))
        return gpu->next_idle_poll_ns = now + BUSY_POLL_NS;
    /* Stored before IDLE is sent: a thread that submits from here on wakes us. Pairs with clear_watch in gate/gate.c. */
    atomic_store(&gpu->is_known_idle, true);
    nvs_client_idle(&nvs_helper_client, gpu->index);
    return nvs_gate_is_watched(gpu) ? NVS_NEVER : now;
}

int64_t nvs_work_tick(struct nvs_gpu *gpu, int64_t now)
{
    int64_t suspension = nvs_suspension_tick(gpu, now);
    if (!nvs_suspension_is_on_card()) { /* no call to the driver until the process is back */
        nvs_gpu_time_tick(gpu, now);    /* reports what it has seen */
        return suspension;
    }
    int64_t watch = NVS_NEVER;
    if (is_watched_for(gpu))
        watch = tick_watch(gpu, now);
    else
        end_watch(gpu);
    int64_t next = nvs_deadline_sooner(watch, nvs_reports_tick(gpu, now));
    nvs_tell_mover(&nvs_helper_client, gpu->index, nvs_mover_state(gpu));
    return nvs_deadline_sooner(nvs_deadline_sooner(next, suspension), nvs_gpu_time_tick(gpu, now));
}

static int64_t tick_mover(struct nvs_gpu *gpu, int64_t now)
{
    struct nvs_moved moved;
    bool has_ended;
    int64_t next = nvs_mover_tick(gpu, now, &moved, &has_ended);
    if (has_ended)
        nvs_tell_move_ended(&nvs_helper_client, gpu->index, moved.to_host, moved.bytes, moved.left, moved.ns);
    return next;
}

static int64_t tick_hold(struct nvs_gpu *gpu, int64_t now)
{
    uint64_t held;
    bool is_done;
    int64_t next = nvs_hold_tick(gpu, now, nvs_turn_is_open(&nvs_helper_client.gpus[gpu->index].turn), &held, &is_done);
    if (is_done)
        nvs_tell_held(&nvs_helper_client, gpu->index, held);
    return next;
}

int64_t nvs_work_move(struct nvs_gpu *gpu, int64_t now)
{
    if (is_without_driver)
        return NVS_NEVER;
    int64_t mover = tick_mover(gpu, now), hold = tick_hold(gpu, now);
    return mover < hold ? mover : hold;
}

bool nvs_work_refresh_pools(void)
{
    if (is_without_driver || !nvs_suspension_is_on_card() || !nvs_pools_exist())
        return false;
    nvs_deputy_driver_begin();
    nvs_pools_refresh();
    nvs_deputy_driver_end();
    return true;
}

int64_t nvs_work_pools(int64_t now)
{
    static int64_t next_ns;
    if (is_without_driver || !nvs_suspension_is_on_card() || !nvs_pools_have_slack())
        return NVS_NEVER;
    if (now >= next_ns) {
        nvs_work_refresh_pools();
        next_ns = now + POOL_POLL_NS;
    }
    return next_ns;
}
