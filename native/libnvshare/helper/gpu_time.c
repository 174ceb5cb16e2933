/* Which looks are made and what is reported is in client/looks.h, how streams are asked in gate/unfinished.c.
 *
 * Looks are made while threads may submit (the gate is open) and while work that they submitted may be unfinished (it is drained), if
 * the scheduler wants to know. A process without work rests: the gate is watched, as for idle holders (helper/work.c). When nothing
 * has been submitted since, `is_idle_told` is set, and a thread that submits wakes the helper. Until then no look is made. */
#include "helper/gpu_time.h"

#include <stdatomic.h>
#include <string.h>

#include "base/options.h"
#include "client/tell.h"
#include "gate/streams.h"
#include "gate/unfinished.h"
#include "helper/deputy.h"
#include "helper/helper.h"
#include "helper/link.h"
#include "suspend/suspension.h"

enum { MOST_UNKNOWN = 64 };
#define SELDOM_NS (50 * NVS_MS)

static bool is_without_driver;
static struct gpu_time {
    struct nvs_looks looks;
    bool is_resting;
    uint32_t unknown; /* so many looks in a row had no answer */
    int64_t due_ns;   /* when the next look is; 0: looking has not begun */
    int64_t round_ns; /* since when streams are asked and none was unfinished; 0: the last look was enough */
} times[NVS_MAX_GPUS];

void nvs_gpu_time_leave_driver(void) { is_without_driver = true; }

void nvs_gpu_time_forked(void)
{
    is_without_driver = false;
    memset(times, 0, sizeof times);
    nvs_unfinished_forked();
}

static bool is_open(const struct nvs_gpu *gpu) { return nvs_turn_is_open(&nvs_helper_client.gpus[gpu->index].turn); }

static bool is_wanted(const struct nvs_gpu *gpu)
{
    bool may_have_work = is_open(gpu) || gpu->is_draining || gpu->is_helping || gpu->is_asked;
    return nvs_options()->gpu_time && !is_without_driver && may_have_work && atomic_load(&gpu->contexts) > 0
        && nvs_suspension_is_on_card() && nvs_tell_gpu_time_is_wanted(&nvs_helper_client);
}

bool nvs_gpu_time_wants_watch(const struct nvs_gpu *gpu)
{
    const struct gpu_time *time = &times[gpu->index];
    return (time->is_resting || nvs_looks_are_quiet(&time->looks)) && is_open(gpu) && is_wanted(gpu);
}

static void tell(const struct nvs_gpu *gpu, const struct nvs_look_report *report)
{
    if (nvs_helper_link.out_bytes < NVS_MAX_FRAME) /* else the scheduler does not read: held time counts */
        nvs_tell_gpu_time(&nvs_helper_client, gpu->index, report);
}

static void end(const struct nvs_gpu *gpu)
{
    struct gpu_time *time = &times[gpu->index];
    struct nvs_look_report report;
    if (nvs_looks_end(&time->looks, &report))
        tell(gpu, &report);
    memset(time, 0, sizeof *time);
}

static void rest(const struct nvs_gpu *gpu)
{
    struct nvs_look_report idle = {.first = times[gpu->index].looks.last + 1};
    end(gpu);
    tell(gpu, &idle);
    times[gpu->index].is_resting = true;
}

/* As nvs_drains_advance: a lock that a thread holds is not waited for, and the deputy answers while the driver is asked. */
static enum nvs_unfinished look(const struct nvs_gpu *gpu)
{
    if (atomic_load(&gpu->is_idle_told))
        return NVS_UNFINISHED_NONE;
    if (!nvs_lock_try(&nvs_streams_lock))
        return NVS_UNFINISHED_UNKNOWN;
    nvs_deputy_driver_begin();
    enum nvs_unfinished seen = nvs_unfinished(gpu);
    nvs_lock_give(&nvs_streams_lock);
    nvs_deputy_driver_end();
    return seen;
}

static int64_t due_after(struct gpu_time *time, int64_t now, enum nvs_unfinished seen)
{
    bool is_answer = seen == NVS_UNFINISHED_NONE || seen == NVS_UNFINISHED_SOME;
    time->unknown = seen == NVS_UNFINISHED_UNKNOWN ? time->unknown + 1 : 0;
    if (time->unknown > MOST_UNKNOWN)
        return now + SELDOM_NS;
    return nvs_looks_next(is_answer ? &time->looks : &(struct nvs_looks){0}, now);
}

static void note(const struct nvs_gpu *gpu, struct gpu_time *time, int64_t now, bool busy)
{
    struct nvs_look_report report;
    if (nvs_looks_saw(&time->looks, now, busy, &report))
        tell(gpu, &report);
}

/* If it took several looks to ask all streams, there was no work since the first of them. */
static void note_answer(const struct nvs_gpu *gpu, struct gpu_time *time, int64_t now, enum nvs_unfinished seen)
{
    if (seen == NVS_UNFINISHED_NONE && time->round_ns)
        note(gpu, time, time->round_ns, false);
    if (seen == NVS_UNFINISHED_NONE || seen == NVS_UNFINISHED_SOME)
        note(gpu, time, now, seen == NVS_UNFINISHED_SOME);
    time->round_ns = seen != NVS_UNFINISHED_MORE ? 0 : time->round_ns ? time->round_ns : now;
}

static void look_if_due(const struct nvs_gpu *gpu, struct gpu_time *time, int64_t now)
{
    enum nvs_unfinished seen = NVS_UNFINISHED_UNKNOWN;
    if (now < time->due_ns)
        return;
    if (time->due_ns) {
        seen = look(gpu);
        now = nvs_now_ns();
        note_answer(gpu, time, now, seen);
    }
    time->due_ns = due_after(time, now, seen);
}

int64_t nvs_gpu_time_tick(struct nvs_gpu *gpu, int64_t now)
{
    struct gpu_time *time = &times[gpu->index];
    if (!is_wanted(gpu)) {
        end(gpu);
        return NVS_NEVER;
    }
    bool is_idle = atomic_load(&gpu->is_idle_told);
    time->is_resting = time->is_resting && is_idle;
    if (is_idle && !time->is_resting && nvs_looks_are_quiet(&time->looks))
        rest(gpu);
    if (time->is_resting)
        return NVS_NEVER;
    look_if_due(gpu, time, now);
    return time->due_ns;
}
