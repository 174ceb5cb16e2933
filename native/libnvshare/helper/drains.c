/* Theory of operation
 *
 * A drain waits for work that may itself wait for work that has not been submitted yet: a kernel of a collective waits for its
 * counterpart on another GPU; a host function waits for a mutex whose owner waits at the gate. If the thread that would submit
 * that work waits at a closed gate, the drain would last until the scheduler revokes the lock. So
 *
 *   together     no lock is released until all GPUs of the process that drain have drained: a lock that was
 *                released does not help the drains of the others;
 *   one by one   if no work has finished for PATIENCE_NS and a thread waits at a closed gate, one submission may pass each gate
 *                (nvs_gate_offer), to a stream without unfinished work: work behind unfinished work does not help. Then the
 *                drain of that GPU begins again;
 *   in time      the other GPUs wait for a drain, and work passes for it, for at most HOPE_NS.
 *
 * An ordinary program with long kernels looks the same for a while. So after each submission that passed, the patience is twice
 * the time that its work took. The work that a collective waits for takes microseconds, and the next submission follows at once.
 * After a kernel of 100 ms no other passes for 200 ms, and by then the rest has drained.
 *
 * A gate may be closed because another client holds its lock. There a submission passes only after UNLOCKED_NS, when pacing
 * would have ended any ordinary queue of work. It runs beside the holder's work, which costs less than a revoked lock.
 *
 * Work that another process waits for (LET_ONE) passes in the same way, at a gate whose lock this process does not hold: when the
 * GPU has no unfinished work, one submission is offered. The scheduler is told when its work has finished, or that no thread
 * waited.
 *
 * While the program exits, the driver may be unloaded, and only the program's own threads call it. A drain that needs the driver
 * is then done by a thread that waits at the gate (nvs_drain_in_thread): it is about to call the driver anyway. If no thread
 * waits, the process keeps the lock until the scheduler revokes it or the process has ended. */
#include "helper/drains.h"

#include <stdatomic.h>

#include "base/log.h"
#include "client/job.h"
#include "gate/drain.h"
#include "gate/gate.h"
#include "gate/streams.h"
#include "gate/threads.h"
#include "helper/deputy.h"
#include "helper/helper.h"
#include "suspend/suspension.h"

enum { QUICK_POLLS = 25 };
#define QUICK_POLL_NS (NVS_MS / 5)
#define POLL_NS NVS_MS
#define SELDOM_POLL_NS (20 * NVS_MS)
#define PATIENCE_NS (20 * NVS_MS)
#define LEAST_PATIENCE_NS (NVS_MS / 2)
#define UNLOCKED_NS (1000 * NVS_MS)
#define ASKED_NS (5 * NVS_MS)
#define HOPE_NS (4000 * NVS_MS)

static bool is_without_driver;
static int64_t patience_ns;
static int64_t progress_ns; /* when something last finished, was let through, or began to drain */
static int64_t offered_ns;  /* when a submission was last offered */

void nvs_drains_forked(void) { is_without_driver = false; }

/* From the start: threads may be inside, and streams have new work. */
static void begin_again(struct nvs_gpu *gpu)
{
    gpu->is_drained = gpu->is_past_threads = false;
    gpu->polls = 0;
}

/* What was offered is no longer. False if a thread has taken it: it is, or was, inside. */
static bool withdraw(struct nvs_gpu *gpu)
{
    uint32_t offer = gpu->offer;
    gpu->offer = 0;
    if (!offer || nvs_gate_withdraw(gpu, offer))
        return true;
    gpu->let_ns = progress_ns = nvs_now_ns();
    begin_again(gpu);
    return false;
}

bool nvs_drains_advance(struct nvs_gpu *gpu)
{
    bool done = false;
    if (!gpu->is_past_threads)
        gpu->was_closed = nvs_gate_is_closed(gpu); /* before the threads are looked at: a thread that passed an open gate is found inside */
    if (!gpu->is_past_threads && nvs_threads_any_inside(gpu))
        return false;
    if (!nvs_lock_try(&nvs_streams_lock))
        return false; /* a thread holds it: look again at the next step */
    nvs_deputy_driver_begin();
    if (!is_without_driver || !nvs_drain_needs_driver(gpu)) {
        if (!gpu->is_past_threads)
            nvs_drain_begin(gpu);
        gpu->is_past_threads = true;
        bool is_finished = nvs_drain_step(gpu, gpu->is_draining);
        gpu->seen_unfinished = gpu->unfinished;
        done = is_finished && withdraw(gpu) && nvs_drain_finish(gpu, gpu->was_closed);
    }
    nvs_lock_give(&nvs_streams_lock);
    nvs_deputy_driver_end();
    return done;
}

static bool takes_part(const struct nvs_gpu *gpu) { return gpu->is_draining || gpu->is_helping; }

void nvs_drains_let_one(struct nvs_gpu *gpu, int64_t now)
{
    bool can_let = !takes_part(gpu) && !is_without_driver && nvs_suspension_is_on_card();
    if (!can_let || !nvs_job_must_let(&nvs_helper_client, gpu->index)) {
        nvs_job_let_done(&nvs_helper_client, gpu->index);
        return;
    }
    begin_again(gpu);
    gpu->is_asked = true;
    gpu->asked_ns = now;
    gpu->let_ns = 0;
}

void nvs_drains_begin(struct nvs_gpu *gpu, int64_t now)
{
    gpu->is_draining = true;
    gpu->is_helping = false;
    gpu->let_ns = 0;
    gpu->drain_began_ns = progress_ns = now;
    patience_ns = PATIENCE_NS;
    begin_again(gpu);
}

void nvs_drains_leave_driver(void)
{
    is_without_driver = true;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (nvs_gpus[i].is_asked)
            nvs_drains_stop(&nvs_gpus[i]);
        else
            withdraw(&nvs_gpus[i]);
}

void nvs_drains_stop(struct nvs_gpu *gpu)
{
    withdraw(gpu);
    if (gpu->is_asked)
        nvs_job_let_done(&nvs_helper_client, gpu->index);
    gpu->is_draining = gpu->is_helping = gpu->is_asked = false;
    atomic_store(&gpu->threads_drain, false);
    nvs_drain_allow_captures(gpu);
}

static void look_at(struct nvs_gpu *gpu, int64_t now)
{
    uint32_t unfinished = gpu->seen_unfinished;
    if (gpu->offer && nvs_gate_is_taken(gpu, gpu->offer))
        withdraw(gpu);
    if (gpu->is_drained)
        return;
    gpu->is_drained = !nvs_suspension_is_on_card() || nvs_drains_advance(gpu); /* nothing runs while the process is suspended */
    if (gpu->is_drained && gpu->let_ns) {
        int64_t took = now - gpu->let_ns;
        patience_ns = 2 * took > LEAST_PATIENCE_NS ? 2 * took : LEAST_PATIENCE_NS;
        gpu->let_ns = 0;
    }
    if (!gpu->is_drained && gpu->seen_unfinished == unfinished)
        return;
    progress_ns = now;
    if (gpu->offer)
        nvs_gate_call_waiters(gpu); /* to a stream that has finished, one may submit now */
}

/* A thread waits at a gate that one submission may pass. Gates whose lock is not ours take part from here on if it is time for them. */
static bool is_wanted(int64_t now)
{
    bool wanted = false;
    for (int i = 0; i < nvs_gpu_count; i++) {
        struct nvs_gpu *gpu = &nvs_gpus[i];
        bool is_waited_at = atomic_load(&gpu->waiters) > 0;
        if (is_waited_at && !takes_part(gpu) && !gpu->is_asked && nvs_gate_is_closed(gpu) && now - progress_ns >= UNLOCKED_NS) {
            gpu->is_helping = true;
            begin_again(gpu);
        }
        wanted = wanted || (is_waited_at && takes_part(gpu));
    }
    return wanted;
}

static void make_offer(struct nvs_gpu *gpu)
{
    static uint32_t number;
    gpu->offer = ++number ? number : ++number;
    nvs_gate_offer(gpu, gpu->offer);
}

static void offer(int64_t now)
{
    bool is_new = false;
    if (now - progress_ns < patience_ns || now - offered_ns < patience_ns || !is_wanted(now))
        return;
    for (int i = 0; i < nvs_gpu_count; i++) {
        struct nvs_gpu *gpu = &nvs_gpus[i];
        if (takes_part(gpu) && !gpu->offer) {
            make_offer(gpu);
            is_new = true;
        }
    }
    offered_ns = now;
    if (is_new)
        patience_ns *= 2;
}

static void end(struct nvs_gpu *gpu, int64_t now)
{
    bool was_draining = gpu->is_draining;
    nvs_drains_stop(gpu);
    if (!was_draining)
        return;
    nvs_debug("%s: drained in %lld us, lock %#llx released", gpu->label, (long long)(nvs_now_ns() - gpu->drain_began_ns) / 1000,
              (unsigned long long)nvs_helper_client.gpus[gpu->index].turn.lock);
    nvs_client_drained(&nvs_helper_client, now, gpu->index, atomic_load(&gpu->waiters) > 0);
}

/* Ends every drain that has finished, and all help. False if a submission was let through meanwhile: all GPUs are looked at again. */
static bool end_all(int64_t now)
{
    bool all = true;
    for (int i = 0; i < nvs_gpu_count; i++)
        all = withdraw(&nvs_gpus[i]) && all;
    for (int i = 0; all && i < nvs_gpu_count; i++)
        if (nvs_gpus[i].is_helping || (nvs_gpus[i].is_draining && nvs_gpus[i].is_drained && nvs_suspension_left(&nvs_gpus[i])))
            end(&nvs_gpus[i], now);
    return all;
}

/* threads_drain is stored before wake_count is raised: pairs with wait_for_turn, which reads them in the other order. A thread that
 * misses the flag finds the count changed and does not sleep. */
static int64_t poll_again(struct nvs_gpu *gpu, int64_t now)
{
    if (is_without_driver && !atomic_exchange(&gpu->threads_drain, true))
        nvs_gate_call_waiters(gpu);
    return now + (gpu->polls++ < QUICK_POLLS || gpu->offer ? QUICK_POLL_NS : POLL_NS);
}

/* One submission for another process: look until the GPU has drained, offer, look again. */
static int64_t tick_asked(struct nvs_gpu *gpu, int64_t now)
{
    bool was_offered = gpu->offer || gpu->let_ns;
    look_at(gpu, now);
    if (gpu->offer && !atomic_load(&gpu->waiters) && now - gpu->asked_ns > ASKED_NS)
        withdraw(gpu); /* no thread waits */
    if (gpu->is_drained && !gpu->offer && was_offered) {
        nvs_drains_stop(gpu);
        return NVS_NEVER;
    }
    if (gpu->is_drained && !was_offered)
        make_offer(gpu);
    return now - gpu->asked_ns < UNLOCKED_NS ? poll_again(gpu, now) : now + SELDOM_POLL_NS; /* later the other process does not wait for it any more */
}

static bool is_young(const struct nvs_gpu *gpu, int64_t now)
{
    return gpu->is_draining && !is_without_driver && now - gpu->drain_began_ns < HOPE_NS;
}

int64_t nvs_drains_tick(int64_t now)
{
    bool any_young = false, any_unfinished = false;
    int64_t next = NVS_NEVER;
    for (int i = 0; i < nvs_gpu_count; i++) {
        struct nvs_gpu *gpu = &nvs_gpus[i];
        if (gpu->is_asked)
            next = nvs_deadline_sooner(next, tick_asked(gpu, now));
        if (!takes_part(gpu))
            continue;
        look_at(gpu, now);
        any_young = any_young || is_young(gpu, now);
        any_unfinished = any_unfinished || (!gpu->is_drained && (gpu->is_helping || is_young(gpu, now)));
    }
    if (any_young && any_unfinished)
        offer(now);
    else if (!end_all(now))
        return now;
    for (int i = 0; i < nvs_gpu_count; i++)
        if (takes_part(&nvs_gpus[i]))
            next = nvs_deadline_sooner(next, poll_again(&nvs_gpus[i], now));
    return next;
}
