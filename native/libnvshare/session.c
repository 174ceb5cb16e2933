/* The one shell: one helper thread, one socket. Threads of the program leave word (a waiter, a changed figure, a question) and wake it; it
 * polls, reads, decides by the pure parts, and writes. It makes no call that can wait, so a limit, a recall or the
 * scheduler's death is seen within a step, whatever the GPU is doing.
 *
 * Without a scheduler everything runs unshared; whoever waited for a turn when it died goes on after a bounded time. */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper.h"
#include "log.h"
#include "options.h"
#include "pools.h"
#include "process.h"
#include "socket.h"
#include "turns.h"

#define POOL_LOOK_NS (100 * NVS_MS)

/* The helper's own. */
static struct nvs_link wire = {.fd = {.fd = -1}};
static bool is_registered, has_said_alone, has_said_lost;
static int64_t next_attempt_ns, lost_ns, join_by_ns, next_pools_ns;
static uint32_t attempts_failed;

/* Shared. */
static struct nvs_owned_fd wake_read = {.fd = -1}, wake_write = {.fd = -1};
static struct nvs_lock wake_lock, ask_lock;
static _Atomic bool is_woken, is_connected, is_stopping, paces;
static _Atomic uint32_t is_joined, has_ended;
static _Atomic bool is_running;

/* A thread's question, on its stack while it waits. */
struct ask {
    struct ask *next;
    int gpu;
    uint32_t id;
    bool is_sent;
    uint64_t need, granted;
    _Atomic uint32_t answer; /* 0 none yet, 1 granted something, 2 nobody there */
};
static struct ask *asks;
static uint32_t last_ask;

/* ---- waking ---- */

static void open_wake(void)
{
    int pair[2];
    nvs_lock_take(&wake_lock);
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0) {
        wake_read = nvs_own_fd(pair[0]);
        wake_write = nvs_own_fd(pair[1]);
    }
    nvs_lock_give(&wake_lock);
}

void nvs_session_wake(void)
{
    int saved = errno;
    if (atomic_exchange(&is_woken, true))
        return;
    nvs_lock_take(&wake_lock);
    if (nvs_fd_is_ours(&wake_write))
        send(wake_write.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    nvs_lock_give(&wake_lock);
    errno = saved;
}

static void clear_wake(void)
{
    char bytes[64];
    if (nvs_fd_is_ours(&wake_read))
        while (recv(wake_read.fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
            ;
    else
        open_wake(); /* the program closed what it did not open */
    atomic_store(&is_woken, false);
}

void nvs_memory_changed(struct nvs_gpu *gpu)
{
    if (!atomic_exchange(&gpu->memory_changed, true))
        nvs_session_wake();
}

bool nvs_session_hurry(struct nvs_gpu *gpu) { return !atomic_exchange(&gpu->is_urgent, true); }

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

/* ---- asking ---- */

static void unlink_ask(struct ask *ask)
{
    for (struct ask **at = &asks; *at; at = &(*at)->next)
        if (*at == ask) {
            *at = ask->next;
            return;
        }
}

bool nvs_session_ask(struct nvs_gpu *gpu, uint64_t need, uint64_t *granted)
{
    struct ask ask = {.gpu = gpu->index, .need = need};
    int64_t end = nvs_now_ns() + nvs_options()->ask_ms * NVS_MS, left;
    if (!atomic_load(&is_connected))
        return false;
    nvs_lock_take(&ask_lock);
    ask.id = ++last_ask ? last_ask : ++last_ask; /* 0 means no question */
    ask.next = asks;
    asks = &ask;
    nvs_lock_give(&ask_lock);
    nvs_session_wake();
    while (!atomic_load(&ask.answer) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&ask.answer, 0, left);
    nvs_lock_take(&ask_lock);
    unlink_ask(&ask);
    nvs_lock_give(&ask_lock);
    *granted = ask.granted;
    return atomic_load(&ask.answer) == 1;
}

void nvs_session_refresh(struct nvs_gpu *gpu)
{
    uint64_t granted;
    nvs_lock_take(&gpu->account_lock);
    bool has_others = gpu->account.limit && (gpu->account.others || gpu->account.budget < gpu->account.limit);
    nvs_lock_give(&gpu->account_lock);
    if (has_others)
        nvs_session_ask(gpu, 0, &granted);
}

void nvs_session_answer(uint32_t id, uint64_t granted)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; id && at; at = at->next)
        if (at->id == id) {
            at->granted = granted;
            atomic_store(&at->answer, 1);
            nvs_futex_wake_all(&at->answer);
            break;
        }
    nvs_lock_give(&ask_lock);
}

static void send_asks(void)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next)
        if (!at->is_sent) {
            struct nvs_msg_budget_ask frame = {.length = sizeof frame, .type = NVS_BUDGET_ASK, .gpu = (uint8_t)at->gpu};
            frame.ask = at->id;
            frame.need = at->need;
            nvs_helper_send(&frame, sizeof frame);
            at->is_sent = true;
        }
    nvs_lock_give(&ask_lock);
}

static void refuse_asks(void)
{
    nvs_lock_take(&ask_lock);
    for (struct ask *at = asks; at; at = at->next)
        if (!atomic_exchange(&at->answer, 2))
            nvs_futex_wake_all(&at->answer);
    nvs_lock_give(&ask_lock);
}

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
    refuse_asks();
    lost_ns = now;
    next_attempt_ns = now + 20 * NVS_MS;
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_turns_apply(&nvs_gpus[i], nvs_turn_lost(&nvs_gpus[i].turn));
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
        join_by_ns = now + nvs_options()->join_ms * NVS_MS;
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
    size_t at = 0;
    bool broken = false;
    const struct nvs_head *frame;
    if (!nvs_link_receive(&wire))
        return false;
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

static int64_t sooner(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t tick_connection(int64_t now)
{
    if (!nvs_link_is_up(&wire) && now >= next_attempt_ns)
        attempt(now);
    int64_t next = nvs_link_is_up(&wire) ? NVS_NEVER : next_attempt_ns;
    if (nvs_link_is_up(&wire) && !is_registered) {
        if (now >= join_by_ns)
            run_alone(); /* it took our call and says nothing; the answer may still come */
        else
            next = join_by_ns;
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
        send_asks();
    return sooner(next, tick_pools(now));
}

static void wait_for_something(int64_t next)
{
    struct pollfd fds[2] = {{.fd = wake_read.fd, .events = POLLIN}, {.fd = wire.fd.fd, .events = POLLIN}};
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
        clear_wake();
        if (nvs_link_is_up(&wire) && !read_messages())
            lost(nvs_now_ns());
        int64_t next = tick(nvs_now_ns());
        if (nvs_link_is_up(&wire) && !nvs_link_flush(&wire))
            lost(nvs_now_ns());
        else
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
    open_wake();
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
    atomic_store(&is_woken, false);
    nvs_session_wake();
    while (!atomic_load(&has_ended) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&has_ended, 0, left);
}

void nvs_session_forked(void)
{
    wake_lock = ask_lock = (struct nvs_lock){0};
    asks = NULL;
    nvs_link_close(&wire);
    nvs_fd_close(&wake_read);
    nvs_fd_close(&wake_write);
    is_registered = has_said_alone = has_said_lost = false;
    next_attempt_ns = lost_ns = join_by_ns = 0;
    attempts_failed = 0;
    atomic_store(&is_joined, 0);
    atomic_store(&is_connected, false);
    atomic_store(&is_woken, false);
    atomic_store(&paces, false);
    atomic_store(&is_running, false);
}
