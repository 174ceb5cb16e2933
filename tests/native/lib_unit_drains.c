/* The drains of one process on two GPUs, in virtual time: when each lock is released (helper/drains.c). */
#include "helper/drains.c"

#include "lib_check.h"

#define SECOND (1000 * NVS_MS)

struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
int nvs_gpu_count = 2;
struct nvs_client nvs_helper_client;
struct nvs_lock nvs_streams_lock;

static bool has_unfinished_work[2];
static int64_t now = SECOND;

bool nvs_lock_try(struct nvs_lock *lock) { return lock == &nvs_streams_lock; }
void nvs_lock_give(struct nvs_lock *lock) { (void)lock; }
void nvs_deputy_driver_begin(void) {}
void nvs_deputy_driver_end(void) {}
bool nvs_drain_needs_driver(const struct nvs_gpu *gpu) { return gpu != NULL; }
void nvs_drain_begin(struct nvs_gpu *gpu) { gpu->unfinished = 1; }
bool nvs_drain_step(struct nvs_gpu *gpu, bool may_delay_captures)
{
    (void)may_delay_captures;
    return !has_unfinished_work[gpu->index];
}
bool nvs_drain_finish(struct nvs_gpu *gpu, bool was_closed) { return gpu && was_closed; }
void nvs_drain_allow_captures(const struct nvs_gpu *gpu) { (void)gpu; }
void nvs_gate_call_waiters(struct nvs_gpu *gpu) { (void)gpu; }
bool nvs_gate_is_closed(const struct nvs_gpu *gpu) { return gpu != NULL; }
bool nvs_gate_is_taken(const struct nvs_gpu *gpu, uint32_t offer) { return gpu->let_one != offer; }
void nvs_gate_offer(struct nvs_gpu *gpu, uint32_t offer) { gpu->let_one = offer; }
bool nvs_gate_withdraw(struct nvs_gpu *gpu, uint32_t offer) { return gpu->let_one == offer; }
bool nvs_suspension_is_on_card(void) { return true; }
bool nvs_suspension_left(struct nvs_gpu *gpu) { return gpu != NULL; }
bool nvs_threads_any_inside(const struct nvs_gpu *gpu) { return gpu == NULL; }

/* As the helper thread: a step whenever one is due, until `end`, or until the lock of `gpu` is released. How long that took. */
static int64_t pass_time(int64_t longest_ns, int gpu)
{
    int64_t began = now, next = now;
    while (nvs_gpus[gpu].is_draining && next <= began + longest_ns) {
        now = next;
        next = nvs_drains_tick(now);
    }
    return now - began;
}

static void drop(int gpu) { nvs_drains_begin(&nvs_gpus[gpu], now); }

static void locks_are_released_together(void)
{
    has_unfinished_work[0] = true;
    drop(0);
    drop(1);
    pass_time(2 * SECOND, 1);
    CHECK(nvs_gpus[0].is_draining && nvs_gpus[1].is_draining);
    has_unfinished_work[0] = false;
    CHECK(pass_time(SECOND, 1) <= POLL_NS);
    CHECK(!nvs_gpus[0].is_draining && !nvs_gpus[1].is_draining);
}

static void a_drain_that_does_not_end_keeps_other_locks_for_four_seconds_and_once(void)
{
    has_unfinished_work[0] = true;
    drop(0);
    drop(1);
    int64_t kept = pass_time(60 * SECOND, 1);
    CHECK(kept >= 4 * SECOND && kept <= 4 * SECOND + POLL_NS);
    CHECK(nvs_gpus[0].is_draining);
    for (int i = 0; i < 5; i++) {
        drop(1);
        EQUAL(pass_time(60 * SECOND, 1), 0);
        CHECK(nvs_gpus[0].is_draining);
        now += SECOND;
    }
    has_unfinished_work[0] = false;
    CHECK(pass_time(SECOND, 0) <= POLL_NS);
    CHECK(!nvs_gpus[0].is_draining);
}

int main(void)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_gpus[i].index = i;
    locks_are_released_together();
    a_drain_that_does_not_end_keeps_other_locks_for_four_seconds_and_once();
    return DONE();
}
