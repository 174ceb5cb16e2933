/* Draining, watching for idleness and reporting memory: small steps that never wait. */
#include "turns.h"

#include <stdatomic.h>

#include "drain.h"
#include "helper.h"
#include "log.h"
#include "options.h"
#include "passage.h"
#include "streams.h"

enum { QUICK_LOOKS = 25 };
#define QUICK_LOOK_NS (NVS_MS / 5)
#define LOOK_NS NVS_MS
#define WATCH_NS (10 * NVS_MS)
#define REPORT_NS (10 * NVS_MS)

#define SEND(message, number, which, ...) \
    do { \
        struct message frame = {.length = sizeof frame, .type = number, .gpu = (uint8_t)(which)->index __VA_OPT__(, ) __VA_ARGS__}; \
        nvs_helper_send(&frame, sizeof frame); \
    } while (0)

struct figures {
    uint16_t contexts;
    uint64_t swappable, unswappable;
};

/* What the scheduler is told; remembered as told. */
static struct figures figures(struct nvs_gpu *gpu)
{
    struct figures now;
    nvs_lock_take(&gpu->account_lock);
    now.unswappable = gpu->account.unswappable;
    now.swappable = gpu->account.used - gpu->account.unswappable;
    gpu->told_used = gpu->account.used;
    atomic_store(&gpu->is_urgent, false);
    nvs_lock_give(&gpu->account_lock);
    uint32_t contexts = atomic_load(&gpu->contexts);
    now.contexts = contexts > UINT16_MAX ? UINT16_MAX : (uint16_t)contexts;
    gpu->told_unswappable = now.unswappable;
    gpu->told_contexts = now.contexts;
    return now;
}

void nvs_turns_send_budget_return(struct nvs_gpu *gpu, uint32_t serial)
{
    nvs_lock_take(&gpu->account_lock);
    uint64_t budget = gpu->account.budget, used = gpu->account.used;
    nvs_lock_give(&gpu->account_lock);
    SEND(nvs_msg_budget_return, NVS_BUDGET_RETURN, gpu, .serial = serial, .budget = budget, .used = used);
}

static void start_drain(struct nvs_gpu *gpu)
{
    gpu->is_draining = true;
    gpu->is_past_threads = false;
    gpu->looks = 0;
    gpu->drain_began_ns = nvs_now_ns();
}

void nvs_turns_apply(struct nvs_gpu *gpu, unsigned todo)
{
    if (todo & NVS_DO_STOP_DRAINING) {
        gpu->is_draining = false;
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
    if (todo & NVS_DO_REQUEST) {
        struct figures now = figures(gpu);
        gpu->asked_ns = nvs_now_ns();
        SEND(nvs_msg_req_lock, NVS_REQ_LOCK, gpu, .contexts = now.contexts, .swappable = now.swappable, .unswappable = now.unswappable);
    }
}

static bool drained(struct nvs_gpu *gpu)
{
    if (!gpu->is_past_threads && nvs_anyone_inside(gpu))
        return false;
    if (!nvs_lock_try(&nvs_streams_lock))
        return false; /* a thread is at it; never wait here */
    if (!gpu->is_past_threads)
        nvs_drain_begin(gpu);
    gpu->is_past_threads = true;
    bool done = nvs_drain_step(gpu, gpu->is_draining);
    nvs_lock_give(&nvs_streams_lock);
    return done;
}

static int64_t tick_drain(struct nvs_gpu *gpu, int64_t now)
{
    uint64_t released = 0;
    if (!drained(gpu))
        return now + (gpu->looks++ < QUICK_LOOKS ? QUICK_LOOK_NS : LOOK_NS);
    gpu->is_draining = false;
    bool wanted = atomic_load(&gpu->waiters) > 0;
    if (nvs_turn_drained(&gpu->turn, wanted, &released) & NVS_DO_RELEASE) {
        nvs_debug("%s: drained in %lld us, lock %#llx released", gpu->label, (long long)(nvs_now_ns() - gpu->drain_began_ns) / 1000,
                  (unsigned long long)released);
        SEND(nvs_msg_lock_released, NVS_LOCK_RELEASED, gpu, .again = wanted, .lock = released);
    }
    return NVS_NEVER;
}

void nvs_turns_contended(struct nvs_gpu *gpu, bool contended)
{
    gpu->turn.contended = contended;
    gpu->next_look_ns = 0;
    if (contended || !gpu->is_watch_armed)
        return;
    gpu->is_watch_armed = false;
    atomic_store(&gpu->is_idle_told, false);
    nvs_gate_unwatch(gpu);
}

static void arm(struct nvs_gpu *gpu)
{
    nvs_gate_watch(gpu);
    gpu->is_watch_armed = true;
    gpu->is_past_threads = false;
}

/* Decision 4, "Idle". */
static int64_t tick_watch(struct nvs_gpu *gpu, int64_t now)
{
    bool is_stirred = !gpu->is_watch_armed || !nvs_gate_is_watched(gpu);
    if (is_stirred && atomic_exchange(&gpu->is_idle_told, false))
        SEND(nvs_msg_busy, NVS_BUSY, gpu);
    else if (now < gpu->next_look_ns)
        return gpu->next_look_ns;
    if (is_stirred) {
        arm(gpu);
        return gpu->next_look_ns = now + WATCH_NS;
    }
    if (atomic_load(&gpu->is_idle_told))
        return NVS_NEVER;
    if (!drained(gpu))
        return gpu->next_look_ns = now + 2 * LOOK_NS;
    /* Told before it is sent: a thread that stirs from here on wakes us. */
    atomic_store(&gpu->is_idle_told, true);
    SEND(nvs_msg_idle, NVS_IDLE, gpu);
    return nvs_gate_is_watched(gpu) ? NVS_NEVER : now;
}

static bool is_news(struct nvs_gpu *gpu)
{
    nvs_lock_take(&gpu->account_lock);
    bool news = gpu->account.used != gpu->told_used || gpu->account.unswappable != gpu->told_unswappable;
    nvs_lock_give(&gpu->account_lock);
    return news || atomic_load(&gpu->contexts) != gpu->told_contexts;
}

static int64_t tick_memory(struct nvs_gpu *gpu, int64_t now)
{
    if (!atomic_load(&gpu->memory_changed))
        return NVS_NEVER;
    if (!gpu->memory_due_ns)
        gpu->memory_due_ns = now + REPORT_NS;
    if (now < gpu->memory_due_ns && !atomic_load(&gpu->is_urgent))
        return gpu->memory_due_ns;
    gpu->memory_due_ns = 0;
    atomic_store(&gpu->memory_changed, false);
    if (!is_news(gpu))
        return NVS_NEVER;
    struct figures now_used = figures(gpu);
    SEND(nvs_msg_mem_update, NVS_MEM_UPDATE, gpu, .contexts = now_used.contexts, .swappable = now_used.swappable,
         .unswappable = now_used.unswappable);
    return NVS_NEVER;
}

/* A process without a context has nothing to do on the GPU, and nothing to keep there. */
static void tick_contexts(struct nvs_gpu *gpu)
{
    bool has = atomic_load(&gpu->contexts) > 0;
    if (gpu->had_contexts && !has && !atomic_load(&gpu->waiters)) {
        if (!nvs_helper_is_registered())
            return; /* nobody to give the lock to: without it we could only wait for a scheduler that is not there */
        nvs_turns_apply(gpu, nvs_turn_yield(&gpu->turn));
    }
    gpu->had_contexts = has;
}

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t nvs_turns_tick(struct nvs_gpu *gpu, int64_t now)
{
    int64_t next = NVS_NEVER;
    if (atomic_load(&gpu->waiters))
        nvs_turns_apply(gpu, nvs_turn_want(&gpu->turn));
    tick_contexts(gpu);
    if (gpu->is_draining)
        next = tick_drain(gpu, now);
    else if (gpu->turn.state == NVS_TURN_HOLDING && gpu->turn.contended)
        next = tick_watch(gpu, now);
    return nvs_helper_is_registered() ? sooner(next, tick_memory(gpu, now)) : next;
}
