/* The one shell: one helper thread, one socket. Threads of the program leave word (a waiter, a changed figure, a
 * question) and wake it; it polls, reads, decides by the pure parts, and writes. It makes no call that can wait, so a
 * limit, a recall or the scheduler's death is seen within a step, whatever the GPU is doing.
 *
 * Without a scheduler everything runs unshared; whoever waited for a turn when it died goes on after a bounded time. */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "asks.h"
#include "helper.h"
#include "log.h"
#include "options.h"
#include "pools.h"
#include "process.h"
#include "socket.h"
#include "turns.h"
#include "wake.h"

#define POOL_LOOK_NS (100 * NVS_MS)
#define LONGEST_SILENCE_NS (11 * 60 * 1000 * NVS_MS)

/* The helper's own. */
static struct nvs_link wire = {.fd = {.fd = -1}};
static bool is_registered, has_said_alone, has_said_lost;
static int64_t next_attempt_ns, lost_ns, join_by_ns, next_pools_ns, heard_ns;
static uint32_t attempts_failed;

/* Shared. */
static _Atomic bool is_connected, is_stopping, paces;
static _Atomic uint32_t is_joined, has_ended;
static _Atomic bool is_running;

void nvs_memory_changed(struct nvs_gpu *gpu)
{
    if (!atomic_exchange(&gpu->memory_changed, true))
        nvs_session_wake();
}

bool nvs_session_hurry(struct nvs_gpu *gpu) { return !atomic_exchange(&gpu->is_urgent, true); }

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- joining ---- */

static void join_is_decided(void)
{
    if (!atomic_exchange(&is_joined, 1))
        nvs_futex_wake_all(&is_joined);
}

void nvs_session_wait_joined(void)
{
    if (NVS_LIKELY(atomic_load_explicit(&is_joined, memory_order_acquire)))
        return;
    int64_t end = nvs_now_ns() + nvs_options()->join_ms * NVS_MS, left;
    while (!atomic_load(&is_joined) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&is_joined, 0, left);
}

bool nvs_session_paces(void) { return atomic_load_explicit(&paces, memory_order_relaxed); }

bool nvs_session_is_connected(void) { return atomic_load(&is_connected); }

bool nvs_helper_is_registered(void) { return is_registered; }

void nvs_helper_registered(bool scheduling_is_on)
{
    is_registered = true;
    attempts_failed = 0;
    atomic_store(&paces, scheduling_is_on);
    atomic_store(&is_connected, true);
    join_is_decided();
}

void nvs_helper_send(const void *frame, size_t bytes) { nvs_link_put(&wire, frame, bytes); }

/* ---- the connection ---- */

static void for_each_turn(unsigned (*transition)(struct nvs_turn *), enum nvs_turn_state only)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (nvs_gpus[i].turn.state == only)
            nvs_turns_apply(&nvs_gpus[i], transition(&nvs_gpus[i].turn));
}

static void lost(int64_t now)
{
    nvs_link_close(&wire);
    if (is_registered && !has_said_lost)
        nvs_warn("the scheduler went away; this process goes on and joins again when it is back");
    has_said_lost = has_said_lost || is_registered;
    is_registered = false;
    atomic_store(&is_connected, false);
    atomic_store(&paces, false);
    nvs_asks_refuse();
    lost_ns = now;
    next_attempt_ns = now + 20 * NVS_MS;
    for (int i = 0; i < nvs_gpu_count; i++) {
        nvs_gpus[i].asked_ns = 0;
        nvs_turns_apply(&nvs_gpus[i], nvs_turn_lost(&nvs_gpus[i].turn));
    }
}

/* When the scheduler must have said something, if it lives: a request is answered at once, and who waits hears of it
 * every ten minutes. */
static int64_t silent_by(void)
{
    int64_t by = NVS_NEVER;
    for (int i = 0; is_registered && i < nvs_gpu_count; i++)
        if (nvs_gpus[i].turn.state == NVS_TURN_WAITING) {
            int64_t asked = nvs_gpus[i].asked_ns;
            by = sooner(by, asked ? asked + nvs_options()->silence_ms * NVS_MS : heard_ns + LONGEST_SILENCE_NS);
        }
    return by;
}

/* Whoever has not heard from a scheduler yet runs without one. */
static void run_alone(void)
{
    for_each_turn(nvs_turn_expired, NVS_TURN_JOINING);
    join_is_decided();
}

static int64_t attempt_delay(int error)
{
    int64_t most = nvs_options()->reconnect_ms, delay = 20;
    for (uint32_t i = 0; i < attempts_failed && delay < most; i++)
        delay *= 2;
    if (error == EAGAIN)
        delay = 5; /* it is there, only crowded */
    delay = delay < most ? delay : most;
    return delay * NVS_MS + nvs_now_ns() % (delay * NVS_MS / 4 + 1); /* not all of us at once */
}

static void attempt(int64_t now)
{
    int error = nvs_link_connect(&wire, nvs_options()->socket);
    if (!error) {
        nvs_messages_register();
        return;
    }
    next_attempt_ns = now + attempt_delay(error);
    if (error == EAGAIN)
        return;
    attempts_failed++;
    if (!atomic_load(&is_joined) && !has_said_alone) {
        nvs_info("no scheduler at %s (%s): running unshared until there is one", nvs_options()->socket, strerror(error));
        has_said_alone = true;
    }
    run_alone();
}

static bool read_messages(void)
{
    size_t at = 0, before = wire.in_bytes;
    bool broken = false;
    const uint8_t *frame;
    if (!nvs_link_receive(&wire))
        return false;
    if (wire.in_bytes > before)
        heard_ns = nvs_now_ns();
    while (!broken && (frame = nvs_link_next(&wire, &at, &broken)))
        broken = !nvs_messages_handle(frame);
    if (broken) {
        nvs_warn("the scheduler sent what we do not understand; connecting again");
        return false;
    }
    nvs_link_consume(&wire, at);
    return true;
}

/* ---- the loop ---- */

static int64_t tick_connection(int64_t now)
{
    if (!nvs_link_is_up(&wire) && now >= next_attempt_ns)
        attempt(now);
    if (now >= silent_by()) {
        nvs_warn("the scheduler does not answer");
        lost(now);
    }
    int64_t next = nvs_link_is_up(&wire) ? silent_by() : next_attempt_ns;
    if (!atomic_load(&is_joined)) {
        if (now >= join_by_ns)
            run_alone(); /* it is there and says nothing, or is too crowded to take our call; the answer may still come */
        else
            next = sooner(next, join_by_ns);
    }
    if (!is_registered && lost_ns) {
        int64_t patience = lost_ns + nvs_options()->orphan_wait_ms * NVS_MS;
        if (now >= patience)
            for (int i = 0; i < nvs_gpu_count; i++)
                if (atomic_load(&nvs_gpus[i].waiters))
                    nvs_turns_apply(&nvs_gpus[i], nvs_turn_expired(&nvs_gpus[i].turn));
        if (now < patience)
            next = sooner(next, patience);
    }
    return next;
}

static int64_t tick_pools(int64_t now)
{
    if (!nvs_pools_have_slack())
        return NVS_NEVER;
    if (now >= next_pools_ns) {
        nvs_pools_refresh();
        next_pools_ns = now + POOL_LOOK_NS;
    }
    return next_pools_ns;
}

static int64_t tick(int64_t now)
{
    int64_t next = tick_connection(now);
    for (int i = 0; i < nvs_gpu_count; i++)
        next = sooner(next, nvs_turns_tick(&nvs_gpus[i], now));
    if (is_registered)
        nvs_asks_send();
    return sooner(next, tick_pools(now));
}

static void wait_for_something(int64_t next)
{
    struct pollfd fds[2] = {{.fd = nvs_wake_fd(), .events = POLLIN}, {.fd = wire.fd.fd, .events = POLLIN}};
    int64_t left = next == NVS_NEVER ? -1 : next - nvs_now_ns();
    if (next != NVS_NEVER && left < 0)
        left = 0;
    if (wire.out_bytes)
        fds[1].events |= POLLOUT;
    /* Also now and then without reason: the last net under everything, once in 5 s. */
    if (left < 0 || left > 5000 * NVS_MS)
        left = 5000 * NVS_MS;
    struct timespec ts = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    ppoll(fds, 2, &ts, NULL);
}

static void *helper(void *nothing)
{
    while (!atomic_load(&is_stopping)) {
        nvs_wake_clear();
        if (nvs_link_is_up(&wire) && !read_messages())
            lost(nvs_now_ns());
        int64_t next = tick(nvs_now_ns());
        if (nvs_link_is_up(&wire) && !nvs_link_flush(&wire))
            lost(nvs_now_ns());
        else if (!atomic_load(&is_stopping)) /* asked for after the last call was heard, and so not called for again */
            wait_for_something(next);
    }
    nvs_link_close(&wire);
    atomic_store(&has_ended, 1);
    nvs_futex_wake_all(&has_ended);
    return nothing;
}

int nvs_session_start(void)
{
    atomic_store(&has_ended, 0);
    atomic_store(&is_stopping, false);
    next_attempt_ns = 0;
    join_by_ns = nvs_now_ns() + nvs_options()->join_ms * NVS_MS;
    nvs_wake_open();
    int error = nvs_thread_start(helper, NULL);
    atomic_store(&is_running, error == 0);
    return error;
}

void nvs_session_stop(void)
{
    int64_t end = nvs_now_ns() + 200 * NVS_MS, left;
    if (!atomic_exchange(&is_running, false))
        return;
    atomic_store(&is_stopping, true);
    nvs_session_wake();
    while (!atomic_load(&has_ended) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&has_ended, 0, left);
}

void nvs_session_forked(void)
{
    nvs_asks_forked();
    nvs_wake_forked();
    nvs_link_close(&wire);
    is_registered = has_said_alone = has_said_lost = false;
    next_attempt_ns = lost_ns = join_by_ns = 0;
    attempts_failed = 0;
    atomic_store(&is_joined, 0);
    atomic_store(&is_connected, false);
    atomic_store(&paces, false);
    atomic_store(&is_running, false);
}
