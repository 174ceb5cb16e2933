/* The gate of libnvshare (gate/gate.c, gate/enter.c, gate/enter.h, gate/threads.c and gate/drain.c, as shipped), with threads that submit
 * work and a helper that closes, drains, opens and watches, under every interleaving that explore.h describes.
 *
 *   gate SCENARIO THREADS ENTRIES MOST_CHOICES [fenced|weak|fenced,weak] [MOST_RUNS]
 *
 * `fenced`: without membarrier. `weak`: loads are reordered too (memory.h).
 *
 * Scenarios, by what the helper does:
 *
 *   close    closes, drains and opens, twice
 *   watch    looks whether the process is idle, then closes
 *   deputy   looks whether the process is idle while the deputy closes
 *   let      closes, lets one submission through and drains again
 *   offer    the same, but it withdraws the offer if nobody has taken it
 *   several  each submission spans two GPUs, which the helper closes, drains and opens one after the other
 *   reach    the same, but the helper lets one submission through at a closed GPU while it closes the other */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drained_streams.h"
#include "explore.h"
#include "gate/drain.h"
#include "gate/enter.h"
#include "gate/gate.h"
#include "gate/streams.h"
#include "gpu.h"
#include "surroundings.h"

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count = 1;
struct nvs_real nvs_real;
static struct nvs_gpu *gpu; /* the one that the helper deals with */
static struct nvs_gate gates[MOST_GPUS];
static struct nvs_thread *records[MOST_WORKERS + 1];
static const char *scenario;
static bool is_weak;
static int entries;

/* The truth, which no thread of the program sees. */
static bool is_empty[MOST_GPUS];            /* the helper closed the gate and found nobody inside, and nothing is let through */
static bool is_shut;                        /* the same, but one submission may be let through */
static int let_through;
static int submitted[MOST_WORKERS], drained[MOST_WORKERS];
static bool has_told_idle, has_worked_after_idle;

static bool spans_gpus(void) { return !strcmp(scenario, "several") || !strcmp(scenario, "reach"); }
/* By the deputy, while the helper looks whether the process is idle. */
static bool is_closed_meanwhile(void) { return !strcmp(scenario, "deputy"); }

bool nvs_stream_use(uintptr_t handle, uint32_t spent, struct nvs_stream_use *use)
{
    (void)spent;
    *use = (struct nvs_stream_use){.gpu = streams[handle - FIRST_STREAM].gpu, .handle = handle, .window = 1000};
    return true;
}

/* ---- the program's threads ---- */

static void submit(int number)
{
    explore_step("submit");
    for (int i = 0; i < nvs_gpu_count; i++)
        explore_require(!is_empty[i], "nobody submits after the gate was closed and found empty");
    let_through += is_shut;
    explore_require(let_through <= 1, "one submission is let through");
    has_worked_after_idle = has_worked_after_idle || has_told_idle;
    submitted[number]++;
    atomic_store_explicit(&work[number], (uint64_t)submitted[number], memory_order_relaxed);
}

static void submits(int number)
{
    for (int i = 0; i < entries; i++) {
        uintptr_t handle = (uintptr_t)(FIRST_STREAM + number);
        bool entered = spans_gpus() ? nvs_enter_several(3, handle) : nvs_enter(handle);
        explore_require(entered, "a thread gets in");
        submit(number);
        nvs_leave(nvs_thread_self);
    }
}

/* ---- the helper ---- */

static bool is_outside(const void *nothing)
{
    (void)nothing;
    for (int i = 0; i < workers; i++)
        if (explore_peek(&records[i]->inside, sizeof records[i]->inside) >> gpu->index & 1)
            return false;
    return true;
}

/* As in helper/drains.c and helper/work.c. */
static bool drain(bool was_closed)
{
    bool was_noted[MOST_WORKERS];
    nvs_lock_take(&nvs_streams_lock);
    for (int i = 0; i < workers; i++) {
        was_noted[i] = streams[i].is_noted;
        if (!was_noted[i])
            look_at(i);
    }
    nvs_drain_begin(gpu);
    bool is_done = nvs_drain_step(gpu, false); /* gives the lock back while it calls the driver */
    for (int i = 0; i < workers; i++) {
        if (streams[i].gpu != gpu)
            continue;
        explore_require(!is_empty[gpu->index] || seen[i] == submitted[i], "what was submitted inside is in its stream when nobody is inside");
        explore_require(seen[i] == drained[i] || was_noted[i] || !is_empty[gpu->index], "a stream with work is on the list");
    }
    if (!was_closed && is_closed_meanwhile()) {
        nvs_lock_give(&nvs_streams_lock); /* the deputy needs no lock of the list */
        nvs_gate_close(gpu);
        nvs_lock_take(&nvs_streams_lock);
    }
    is_done = is_done && nvs_drain_finish(gpu, was_closed);
    for (int i = 0; is_done && i < workers; i++)
        if (was_noted[i] && streams[i].gpu == gpu)
            drained[i] = seen[i];
    nvs_lock_give(&nvs_streams_lock);
    return is_done;
}

/* A stream may be noted, in vain, when the step has passed it: the helper looks again. Each thread does so once. */
static bool is_drained(void)
{
    for (int i = 0; i <= workers; i++)
        if (drain(true))
            return true;
    return false;
}

static void await_leaving(void)
{
    while (nvs_threads_any_inside(gpu))
        explore_await(is_outside, NULL, "threads to leave");
}

/* Nobody will come to take the offer, or somebody has taken it. */
static bool is_over(const void *nothing)
{
    (void)nothing;
    int all = 0;
    for (int i = 0; i < workers; i++)
        all += submitted[i];
    return all == workers * entries || !explore_peek(&gpu->let_one, sizeof gpu->let_one);
}

/* As look_at and end_all in helper/drains.c: what was drained is drained again if an offer was taken. */
static void lets(void)
{
    const uint32_t offer = 7;
    explore_require(is_drained(), "a closed gate can be drained before something is let through");
    is_shut = true;
    nvs_gate_offer(gpu, offer);
    if (!strcmp(scenario, "let"))
        explore_await(is_over, NULL, "the offer to be taken");
    if (!nvs_gate_withdraw(gpu, offer))
        await_leaving();
    is_shut = false;
}

static void closes(struct nvs_gpu *which)
{
    gpu = which;
    nvs_gate_close(gpu);
    has_told_idle = false;
    await_leaving();
    if (!strcmp(scenario, "let") || !strcmp(scenario, "offer"))
        lets();
    is_empty[gpu->index] = true;
    explore_require(is_drained(), "a closed gate can be drained");
    for (int i = 0; i < workers; i++)
        explore_require(drained[i] == submitted[i] || streams[i].gpu != gpu, "all work has been drained when the lock is released");
    explore_step("the lock is released");
    is_empty[gpu->index] = false;
    nvs_gate_open(gpu);
}

/* An offer at one GPU; the other one was open when it was made. */
static void reaches(void)
{
    const uint32_t offer = 7;
    gpu = &nvs_gpus[1];
    nvs_gate_close(gpu);
    await_leaving();
    nvs_gate_offer(gpu, offer);
    closes(&nvs_gpus[0]);
    gpu = &nvs_gpus[1];
    if (!nvs_gate_withdraw(gpu, offer))
        await_leaving();
    nvs_gate_open(gpu);
}

/* As tick_watch in helper/work.c. */
static void watches(void)
{
    nvs_gate_watch(gpu);
    await_leaving();
    if (!drain(false))
        return; /* a thread came in meanwhile */
    atomic_store(&gpu->is_known_idle, true);
    has_told_idle = nvs_gate_is_watched(gpu);
    for (int i = 0; has_told_idle && i < workers; i++)
        /* With reordered loads the look may have been earlier than it seems: work since then has woken the helper. */
        explore_require(drained[i] == submitted[i] || (is_weak && is_woken), "a process that is idle has no work");
}

/* ---- runs ---- */

static void reset(void)
{
    memset(arena, 0, sizeof arena);
    memset(submitted, 0, sizeof submitted);
    memset(drained, 0, sizeof drained);
    memset(streams, 0, sizeof streams);
    memset(seen, 0, sizeof seen);
    memset(is_empty, 0, sizeof is_empty);
    memset((void *)work, 0, sizeof work);
    memset(gates, 0, sizeof gates);
    memset((void *)nvs_gpus, 0, sizeof nvs_gpus);
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_gpus[i].gate = &gates[i], nvs_gpus[i].index = i;
    for (int i = 0; i < workers; i++)
        streams[i].gpu = &nvs_gpus[i % nvs_gpu_count], streams[i].handle = (uintptr_t)(FIRST_STREAM + i);
    gpu = &nvs_gpus[0];
    let_through = 0;
    is_shut = is_woken = has_told_idle = has_worked_after_idle = is_list_locked = false;
    list_given_at = 0;
    nvs_threads_forked();
    nvs_enter_mode.bits = NVS_ENTER_FENCED;
    nvs_enter_setup();
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_gate_open(&nvs_gpus[i]);
    for (int i = 0; i < workers; i++) {
        nvs_thread_self = &nvs_thread_none;
        records[i] = nvs_thread_record();
    }
}

static void helps(void)
{
    bool is_watched = !strcmp(scenario, "watch") || is_closed_meanwhile(), is_reached = !strcmp(scenario, "reach");
    is_watched ? watches() : is_reached ? reaches() : closes(&nvs_gpus[0]);
    let_through = 0;
    if (spans_gpus() && !is_reached)
        closes(&nvs_gpus[1]);
    closes(&nvs_gpus[0]); /* what the first step left behind shows in the last */
}

static void thread(int number) { number < workers ? submits(number) : helps(); }

static void switched(int from, int to)
{
    (void)from;
    nvs_thread_self = to < workers ? records[to] : &nvs_thread_none;
}

/* Records are made in batches; most of them belong to nobody. */
static bool is_constant(const void *at)
{
    bool is_record = (const char *)at >= arena && (const char *)at < arena + sizeof arena;
    for (int i = 0; i < workers; i++)
        is_record = is_record && at != (const void *)&records[i]->inside;
    return is_record || at == (const void *)&nvs_enter_mode.bits;
}

static void ended(void) { explore_require(!has_worked_after_idle || is_woken, "work after IDLE wakes the helper"); }

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    scenario = argv[1];
    workers = atoi(argv[2]);
    entries = atoi(argv[3]);
    nvs_gpu_count = spans_gpus() ? MOST_GPUS : 1;
    is_fenced = argc > 5 && strstr(argv[5], "fenced");
    is_weak = argc > 5 && strstr(argv[5], "weak");
    struct explore_plan plan = {.reset = reset, .thread = thread, .switched = switched, .ended = ended, 
                                .is_constant = is_constant, .reorders_loads = is_weak, .threads = workers + 1,
                                .most = atoi(argv[4]), .most_runs = argc > 6 ? strtoull(argv[6], NULL, 10) : UINT64_C(100000000)};
    printf("%llu runs\n", (unsigned long long)explore(&plan));
    return 0;
}
