/* The helper thread. It performs the decisions of the client machine (client/client.h), which has no clock, socket or thread.
 *
 * The program's threads store what they need (a waiter, changed memory, a question about budget) and wake the helper. In each step
 * it reads the socket, asks the machine what to do, does it, writes to the socket, and then polls. It makes no call that waits
 * for the GPU, so it sees a limit, a recall or the end of the scheduler within one step, independently of the GPU's work. A call
 * may wait for a lock of the driver; during that time the deputy answers (helper/deputy.c).
 *
 * Without a scheduler everything runs unshared. A thread that waited for a turn when the scheduler died runs after a bounded time. */
#include "helper/session.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"
#include "client/effects.h"
#include "client/job.h"
#include "client/tell.h"
#include "gpu.h"
#include "helper/asks.h"
#include "helper/config.h"
#include "helper/deputy.h"
#include "helper/drains.h"
#include "helper/helper.h"
#include "helper/joining.h"
#include "helper/link.h"
#include "helper/user_lines.h"
#include "helper/wake.h"
#include "helper/work.h"
#include "lookup/real.h"
#include "suspend/suspension.h"

/* Under SESSION: the helper or its deputy. */
struct nvs_client nvs_helper_client;
struct nvs_link nvs_helper_link = {.fd = {.fd = -1}};
static int connect_error;

/* Shared with the program's threads. */
static _Atomic bool is_registered;       /* a hint: a question that comes too late is refused by the helper's next step */
static _Atomic bool paces;               /* a hint, relaxed: a stale value shortens or lengthens one window of work */
static _Atomic bool is_running;          /* written during set-up and after a fork, when there is one thread */
static _Atomic bool is_exiting;          /* set before the wake-up that makes the helper read it */
static _Atomic uint32_t has_left_driver; /* a futex, set after the helper's last call to the driver */

bool nvs_session_paces(void) { return atomic_load_explicit(&paces, memory_order_relaxed); }

bool nvs_session_is_registered(void) { return atomic_load(&is_registered); }

/* ---- doing what the client machine says ---- */

/* What threads see of the conversation. */
static void publish(void)
{
    atomic_store(&is_registered, nvs_helper_client.is_registered);
    atomic_store(&paces, nvs_helper_client.paces);
}

static void send_frames(void)
{
    struct nvs_client_out *out = &nvs_helper_client.out;
    struct nvs_head head;
    for (size_t at = 0; at < out->frames_bytes; at += head.length) {
        memcpy(&head, out->frames + at, sizeof head);
        nvs_link_put(&nvs_helper_link, out->frames + at, head.length);
    }
    out->frames_bytes = 0;
}

void nvs_session_send_ask(int gpu, uint32_t ask, uint64_t need)
{
    nvs_client_ask(&nvs_helper_client, nvs_now_ns(), gpu, ask, need);
    send_frames();
}

static void try_to_connect(int64_t now)
{
    connect_error = nvs_link_connect(&nvs_helper_link, nvs_options()->socket);
    if (connect_error)
        nvs_client_not_connected(&nvs_helper_client, now, nvs_link_absence(connect_error, nvs_options()->socket));
    else
        nvs_client_connected(&nvs_helper_client);
}

static void perform_one(const struct nvs_effect *effect, int64_t now)
{
    const struct nvs_client_out *out = &nvs_helper_client.out;
    switch (effect->kind) {
    case NVS_EFFECT_UNANSWERED: break; /* see perform */
    case NVS_EFFECT_SAY: nvs_user_lines_print(effect->notices, connect_error); break;
    case NVS_EFFECT_DISCONNECT: nvs_link_close(&nvs_helper_link); break;
    case NVS_EFFECT_ANSWER: nvs_asks_answer(out->ask, out->granted); break;
    case NVS_EFFECT_SEND: send_frames(); break;
    case NVS_EFFECT_AWAY: nvs_joining_away(); break;
    case NVS_EFFECT_JOINED: nvs_joining_done(); break;
    case NVS_EFFECT_CONNECT: try_to_connect(now); break;
    default: nvs_work_perform(&nvs_gpus[effect->gpu], effect->kind); break;
    }
}

/* Until nothing is left: what is done here may add to what is to be done. The order is that of client/effects.h. The deputy leaves
 * the GPUs to the helper, except that it closes gates. */
static void perform(int64_t now, bool is_helper)
{
    for (struct nvs_effect effect; nvs_effects_next(&nvs_helper_client, is_helper, &effect);) {
        if (effect.kind == NVS_EFFECT_UNANSWERED) /* before is_registered falls: the scheduler is there or expected */
            nvs_asks_lost();
        publish();
        perform_one(&effect, now);
    }
    publish(); /* also if there was nothing to do: the answer to a registration may have no effect */
    if (!is_helper)
        nvs_work_close_gates();
}

static void lost(int64_t now)
{
    nvs_link_close(&nvs_helper_link);
    nvs_client_lost(&nvs_helper_client, now);
    perform(now, true);
}

void nvs_session_receive(const uint8_t *frame, int64_t now, bool is_helper)
{
    struct nvs_head head;
    memcpy(&head, frame, sizeof head);
    int index = nvs_client_gpu_of(&nvs_helper_client, frame, head.length);
    struct nvs_gpu *gpu = index < 0 ? NULL : &nvs_gpus[index];
    if (gpu)
        nvs_lock_take(&gpu->account_lock);
    uint32_t todo = nvs_client_receive(&nvs_helper_client, now, frame, head.length, gpu ? &gpu->account : NULL);
    if (gpu)
        nvs_lock_give(&gpu->account_lock);
    if (gpu && !(todo & NVS_CLIENT_SAY_BROKEN))
        nvs_user_lines_of_frame(frame);
    perform(now, is_helper);
}

void nvs_session_ping(int64_t now)
{
    nvs_client_ping(&nvs_helper_client, now);
    perform(now, false);
}

/* False if the connection is gone. */
static bool read_messages(int64_t now)
{
    size_t at = 0;
    bool broken = false;
    const uint8_t *frame;
    if (!nvs_link_receive(&nvs_helper_link))
        return false;
    /* Before the first message is read: meanwhile the deputy may read some of them. What it leaves to us comes first. */
    if (nvs_link_has(&nvs_helper_link, NVS_BUDGET_RECALL) && nvs_work_refresh_pools())
        perform(now = nvs_now_ns(), true);
    while ((frame = nvs_link_next(&nvs_helper_link, &at, &broken))) {
        nvs_session_receive(frame, now, true);
        if (!nvs_link_is_up(&nvs_helper_link))
            return true; /* it broke the protocol, and that has been dealt with */
    }
    if (broken) {
        nvs_user_lines_print(NVS_CLIENT_SAY_BROKEN, 0);
        return false;
    }
    nvs_link_consume(&nvs_helper_link, at);
    return true;
}

/* ---- the loop ---- */

static struct nvs_seen see(struct nvs_gpu *gpu)
{
    uint32_t news = !atomic_load(&gpu->memory_changed) ? NVS_NEWS_NONE : atomic_load(&gpu->is_urgent) ? NVS_NEWS_MUCH : NVS_NEWS_SOME;
    return (struct nvs_seen){.waiters = atomic_load(&gpu->waiters), .contexts = atomic_load(&gpu->contexts), .news = news};
}

/* `read_ns`: when the socket was read. The machine judges the silence of the scheduler at that time: if the process is stopped after the
 * read, a message may have come since. */
static int64_t tick(int64_t read_ns)
{
    int64_t now = nvs_now_ns();
    struct nvs_seen seen[NVS_MAX_GPUS];
    int64_t next = NVS_NEVER;
    for (int i = 0; i < nvs_gpu_count; i++)
        seen[i] = see(&nvs_gpus[i]);
    if (nvs_real_collectives_are_used())
        nvs_job_use_collectives(&nvs_helper_client);
    nvs_tell_memory_mode(&nvs_helper_client, nvs_suspension_mode());
    nvs_client_tick(&nvs_helper_client, read_ns, seen);
    perform(now, true);
    for (int i = 0; i < nvs_gpu_count; i++)
        next = nvs_deadline_sooner(next, nvs_work_tick(&nvs_gpus[i], now));
    next = nvs_deadline_sooner(next, nvs_drains_tick(now));
    perform(now, true); /* a lock that was released in this step may begin a move: the movers come after it */
    for (int i = 0; i < nvs_gpu_count; i++)
        next = nvs_deadline_sooner(next, nvs_work_move(&nvs_gpus[i], now));
    perform(now, true);
    if (!nvs_link_may_have_more(&nvs_helper_link))
        nvs_asks_refuse_overdue(read_ns);
    nvs_asks_tick();
    next = nvs_deadline_sooner(next, nvs_client_next(&nvs_helper_client));
    return nvs_deadline_sooner(next, nvs_work_pools(now));
}

static void wait_for_something(int64_t next)
{
    struct pollfd fds[2] = {{.fd = nvs_wake_fd(), .events = POLLIN}, {.fd = nvs_helper_link.fd.fd, .events = POLLIN}};
    int64_t left = next == NVS_NEVER ? -1 : next - nvs_now_ns();
    if (next != NVS_NEVER && left < 0)
        left = 0;
    if (nvs_helper_link.out_bytes)
        fds[1].events |= POLLOUT;
    /* Safety net: wake every 5 s. */
    if (left < 0 || left > 5000 * NVS_MS)
        left = 5000 * NVS_MS;
    if (nvs_wake_is_broken())
        return;
    struct timespec ts = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    ppoll(fds, 2, &ts, NULL);
}

/* Pairs with nvs_session_leave_driver: is_exiting is stored there before the wake-up, and read here after nvs_wake_clear. */
static void leave_driver_if_exiting(void)
{
    if (!atomic_load(&is_exiting) || atomic_load(&has_left_driver))
        return;
    nvs_work_leave_driver();
    atomic_store(&has_left_driver, 1);
    nvs_futex_wake_all(&has_left_driver);
}

/* Runs as long as the process. */
static void *helper(void *nothing)
{
    nvs_thread_name("nvshare");
    nvs_deputy_helper_began();
    for (;;) {
        nvs_wake_clear();
        leave_driver_if_exiting();
        perform(nvs_now_ns(), true); /* what the deputy has left to us, before any message that came later */
        int64_t read_ns = nvs_now_ns(); /* before the read, and after nvs_wake_clear: a thread that has woken us is overdue by then */
        if (nvs_link_is_up(&nvs_helper_link) && !read_messages(read_ns))
            lost(nvs_now_ns());
        int64_t next = tick(read_ns);
        if (nvs_link_is_up(&nvs_helper_link) && !nvs_link_flush(&nvs_helper_link))
            lost(nvs_now_ns());
        else
            wait_for_something(next);
    }
    return nothing;
}

static void start_client(void)
{
    struct nvs_client_config config = nvs_config_of_client();
    nvs_client_init(&nvs_helper_client, &config, nvs_now_ns());
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_client_add_gpu(&nvs_helper_client, nvs_gpus[i].uuid, nvs_gpus[i].kind, nvs_gpus[i].bytes);
}

int nvs_session_start(void)
{
    start_client();
    nvs_wake_open();
    int error = nvs_thread_start(helper, NULL);
    atomic_store(&is_running, error == 0);
    return error;
}

void nvs_session_leave_driver(void)
{
    int64_t end = nvs_now_ns() + 200 * NVS_MS, left;
    if (!atomic_load(&is_running))
        return;
    atomic_store(&is_exiting, true);
    nvs_wake_helper();
    while (!atomic_load(&has_left_driver) && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&has_left_driver, 0, left);
}

void nvs_session_forked(void)
{
    nvs_deputy_forked();
    nvs_asks_forked();
    nvs_wake_forked();
    nvs_link_close(&nvs_helper_link);
    memset(&nvs_helper_client, 0, sizeof nvs_helper_client);
    nvs_joining_forked();
    atomic_store(&is_registered, false);
    atomic_store(&paces, false);
    atomic_store(&is_running, false);
    atomic_store(&is_exiting, false); /* the child has not begun to exit, even if it was forked in an exit handler */
    atomic_store(&has_left_driver, 0);
    nvs_work_forked();
}
