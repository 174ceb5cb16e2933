/* The gate of libnvshare (gate/gate.c, gate/enter.c, gate/enter.h, gate/threads.c and gate/drain.c, as shipped), with threads that submit
 * work and a helper that closes, drains, opens and watches, under every interleaving that explore.h describes.
 *
 *   gate SCENARIO THREADS ENTRIES MOST_CHOICES [fenced|refused|weak|fenced,weak] [MOST_RUNS]
 *
 * `fenced`: without membarrier. `refused`: membarrier works at first, and no more when the helper needs it. `weak`: loads are reordered too (memory.h).
 *
 * Scenarios, by what the helper does:
 *
 *   close    closes, drains and opens, twice
 *   watch    looks whether the process is idle, then closes
 *   deputy   looks whether the process is idle while the deputy closes
 *   let      closes, lets one submission through and drains again
 *   offer    the same, but it withdraws the offer if nobody has taken it
 *   several  each submission spans two GPUs, which the helper closes, drains and opens one after the other
 *   reach    the same, but the helper lets one submission through at a closed GPU while it closes the other
 *   beside   the same, but it waits until it has let the submission through, while it looks whether the other GPU is idle */
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

static bool spans_gpus(void) { return !strcmp(scenario, "several") || !strcmp(scenario, "reach") || !strcmp(scenario, "beside"); }
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

#include "helper.h" /* it needs what is above */

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
    bool is_beside = !strcmp(scenario, "beside");
    is_watched ? watches() : is_reached ? reaches() : is_beside ? lets_beside_a_watch() : closes(&nvs_gpus[0]);
    let_through = 0;
    if (spans_gpus() && !is_reached && !is_beside)
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
    return is_record || (!is_refused && at == (const void *)&nvs_enter_mode.bits);
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
    is_refused = argc > 5 && strstr(argv[5], "refused");
    is_weak = argc > 5 && strstr(argv[5], "weak");
    struct explore_plan plan = {.reset = reset, .thread = thread, .switched = switched, .ended = ended, 
                                .is_constant = is_constant, .reorders_loads = is_weak, .threads = workers + 1,
                                .most = atoi(argv[4]), .most_runs = argc > 6 ? strtoull(argv[6], NULL, 10) : UINT64_C(100000000)};
    printf("%llu runs\n", (unsigned long long)explore(&plan));
    return 0;
}
