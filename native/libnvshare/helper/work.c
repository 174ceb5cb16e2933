/* Draining and watching for idleness: small steps that never wait.
 *
 * While the program exits, the driver may be gone, and only the program's own threads call it. A drain that needs the driver is
 * then done by a thread that waits at the gate (nvs_drain_in_thread): it is about to call the driver anyway. If none waits, the
 * lock stays with the process until the scheduler revokes it or the process is gone. */
#include "helper/work.h"

#include <stdatomic.h>

#include "base/log.h"
#include "gate/drain.h"
#include "gate/gate.h"
#include "gate/streams.h"
#include "gate/threads.h"
#include "helper/helper.h"
#include "mover/mover.h"

enum { QUICK_LOOKS = 25 };
#define QUICK_LOOK_NS (NVS_MS / 5)
#define LOOK_NS NVS_MS
#define WATCH_NS (10 * NVS_MS)

static bool is_without_driver;

void nvs_work_leave_driver(void) { is_without_driver = true; }

void nvs_work_forked(void) { is_without_driver = false; }

static void start_drain(struct nvs_gpu *gpu)
{
    gpu->is_draining = true;
    gpu->is_past_threads = false;
    gpu->looks = 0;
    gpu->drain_began_ns = nvs_now_ns();
}

/* Somebody waits for what we hold, or nobody does any more. */
static void look_at_watch(struct nvs_gpu *gpu)
{
    gpu->next_look_ns = 0;
    if (nvs_client_watches(&nvs_helper_client, gpu->index) || !gpu->is_watch_armed)
        return;
    gpu->is_watch_armed = false;
    atomic_store(&gpu->is_idle_told, false);
    nvs_gate_unwatch(gpu);
}

static void perform_at_gpu(struct nvs_gpu *gpu, uint32_t todo)
{
    if (todo & NVS_DO_STOP_DRAINING) {
        gpu->is_draining = false;
        atomic_store(&gpu->threads_drain, false);
        nvs_drain_end(gpu);
    }
    if (todo & NVS_DO_CLOSE)
        nvs_gate_close(gpu);
    if (todo & (NVS_DO_CLOSE | NVS_DO_OPEN)) {
        gpu->is_watch_armed = false;
        atomic_store(&gpu->is_idle_told, false);
        gpu->next_look_ns = 0;
    }
    if (todo & NVS_DO_DRAIN)
        start_drain(gpu);
    if (todo & NVS_DO_OPEN)
        nvs_gate_open(gpu);
    if (todo & NVS_DO_WATCH)
        look_at_watch(gpu);
    if (todo & (NVS_DO_CLOSE | NVS_DO_OPEN))
        nvs_mover_stop(gpu); /* what it moved was for the turn before, or for the others' */
    if (todo & (NVS_DO_MOVE_IN | NVS_DO_MOVE_OUT))
        nvs_mover_start(gpu, todo & NVS_DO_MOVE_OUT, nvs_helper_client.gpus[gpu->index].move_bytes);
}

/* The marks are cleared first: a thread that changes something from here on wakes us again. */
static void hand_in_figures(struct nvs_gpu *gpu)
{
    atomic_store(&gpu->memory_changed, false);
    uint32_t contexts = atomic_load(&gpu->contexts);
    nvs_lock_take(&gpu->account_lock);
    atomic_store(&gpu->is_urgent, false);
    nvs_client_figures(&nvs_helper_client, gpu->index, &gpu->account, contexts);
    nvs_lock_give(&gpu->account_lock);
}

void nvs_work_perform(void)
{
    struct nvs_client_out *out = &nvs_helper_client.out;
    uint64_t gpus = out->gpus;
    out->gpus = 0;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (gpus >> i & 1) {
            uint32_t todo = out->gpu_todo[i];
            out->gpu_todo[i] = 0;
            perform_at_gpu(&nvs_gpus[i], todo);
            if (todo & NVS_DO_FIGURES)
                hand_in_figures(&nvs_gpus[i]);
        }
}

/* One step of a drain, or of the look whether the GPU is idle; true when all work has finished. */
static bool step_drain(struct nvs_gpu *gpu)
{
    if (!gpu->is_past_threads && nvs_threads_any_inside(gpu))
        return false;
    if (!nvs_lock_try(&nvs_streams_lock))
        return false; /* a thread holds it; never wait here */
    bool done = false;
    if (!is_without_driver || !nvs_drain_needs_driver(gpu)) {
        if (!gpu->is_past_threads)
            nvs_drain_begin(gpu);
        gpu->is_past_threads = true;
        done = nvs_drain_step(gpu, gpu->is_draining);
    }
    nvs_lock_give(&nvs_streams_lock);
    return done;
}

/* Stored before open_count is raised: pairs with wait_for_turn, which reads them in the other order. A thread that misses the flag
 * finds the count changed and does not sleep. */
static int64_t look_again(struct nvs_gpu *gpu, int64_t now)
{
    if (is_without_driver && !atomic_exchange(&gpu->threads_drain, true))
        nvs_gate_call_waiters(gpu);
    return now + (gpu->looks++ < QUICK_LOOKS ? QUICK_LOOK_NS : LOOK_NS);
}

static int64_t tick_drain(struct nvs_gpu *gpu, int64_t now)
{
    if (!step_drain(gpu))
        return look_again(gpu, now);
    gpu->is_draining = false;
    atomic_store(&gpu->threads_drain, false);
    nvs_debug("%s: drained in %lld us, lock %#llx released", gpu->label, (long long)(nvs_now_ns() - gpu->drain_began_ns) / 1000,
              (unsigned long long)nvs_helper_client.gpus[gpu->index].turn.lock);
    nvs_client_drained(&nvs_helper_client, now, gpu->index, atomic_load(&gpu->waiters) > 0);
    return NVS_NEVER;
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
    if (has_worked && atomic_exchange(&gpu->is_idle_told, false))
        nvs_client_busy(&nvs_helper_client, gpu->index);
    else if (now < gpu->next_look_ns)
        return gpu->next_look_ns;
    if (has_worked) {
        arm_watch(gpu);
        return gpu->next_look_ns = now + WATCH_NS;
    }
    if (atomic_load(&gpu->is_idle_told))
        return NVS_NEVER;
    if (!step_drain(gpu))
        return gpu->next_look_ns = now + 2 * LOOK_NS;
    /* Stored before IDLE is sent: a thread that submits from here on wakes us. Pairs with clear_watch in gate/gate.c. */
    atomic_store(&gpu->is_idle_told, true);
    nvs_client_idle(&nvs_helper_client, gpu->index);
    return nvs_gate_is_watched(gpu) ? NVS_NEVER : now;
}

static int64_t tick_turn(struct nvs_gpu *gpu, int64_t now)
{
    if (gpu->is_draining)
        return tick_drain(gpu, now);
    return nvs_client_watches(&nvs_helper_client, gpu->index) ? tick_watch(gpu, now) : NVS_NEVER;
}

static int64_t tick_mover(struct nvs_gpu *gpu, int64_t now)
{
    struct nvs_moved moved;
    bool has_moved;
    if (is_without_driver)
        return NVS_NEVER;
    int64_t next = nvs_mover_tick(gpu, now, &moved, &has_moved);
    if (has_moved)
        nvs_client_moved(&nvs_helper_client, gpu->index, moved.to_host, moved.bytes, moved.ns);
    return next;
}

int64_t nvs_work_tick(struct nvs_gpu *gpu, int64_t now)
{
    int64_t turn = tick_turn(gpu, now), mover = tick_mover(gpu, now);
    return turn < mover ? turn : mover;
}
