/* Theory of operation
 *
 * The driver has a lock for each context. While it loads a module (it may compile the module for seconds) or frees much memory,
 * even calls that otherwise never wait (cuEventRecord, cuEventQuery) wait for that lock. The helper makes such calls. During that
 * time the scheduler would get no answer: a lowered limit would take effect late, a recalled budget would keep other processes
 * from allocating, and threads would continue to submit to a GPU whose lock must be released.
 *
 * So a lock protects the conversation (client machine and connection). The helper always holds it, except while it is in the
 * driver. If a driver call takes longer than PATIENCE_NS, the deputy takes the lock, passes the messages to the client machine,
 * and performs the results, except at the GPUs, where the helper is at work. What is to be done at a GPU stays in the client
 * machine's list. The helper does it when it returns from the driver, before it reads another message. Only one thing is done
 * at once, because it is harmless: the deputy closes gates that are to be closed (nvs_work_close_gates). The helper's drain takes
 * that into account (nvs_gate_new_generation).
 *
 * If scheduling is switched on or off, all turns change at once: the deputy leaves such a message, and all later ones, to the
 * helper.
 *
 * The deputy checks every PATIENCE_NS, from the helper's first driver call until the helper has made none for REST_LOOKS checks.
 * A process that never drains, watches or moves has no deputy. */
#include "helper/deputy.h"

#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "base/platform.h"
#include "helper/asks.h"
#include "helper/helper.h"

enum { REST_LOOKS = 50 };
#define PATIENCE_NS (20 * NVS_MS)
#define START_AGAIN_NS (1000 * NVS_MS)

static struct nvs_lock conversation_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_SESSION);
/* When the helper went into the driver; 0: it is not there. Written by the helper, read by the deputy as a hint: what counts is the lock. */
static _Atomic int64_t in_driver_ns;
static _Atomic uint32_t is_awake; /* a futex: the deputy looks, or sleeps until the helper stores 1 */
static _Atomic uint32_t calls;    /* how often the helper went into the driver: whether it still does */
static bool has_deputy;           /* the helper's own, as the next one */
static int64_t start_again_ns;    /* when to try to start it again, after that has failed */

void nvs_deputy_helper_began(void) { nvs_lock_take(&conversation_lock); }

static bool is_kept_waiting(void)
{
    int64_t since = atomic_load(&in_driver_ns);
    return since && nvs_now_ns() - since > PATIENCE_NS;
}

static bool is_ours(const uint8_t *frame)
{
    struct nvs_head head;
    memcpy(&head, frame, sizeof head);
    return head.type != NVS_SCHED_ON && head.type != NVS_SCHED_OFF;
}

/* Returns the descriptor to wait for, or -1 if the rest is the helper's. */
static int answer(void)
{
    size_t at = 0, end = 0;
    bool broken = false;
    int64_t read_ns = nvs_now_ns();
    const uint8_t *frame;
    const struct nvs_client *client = &nvs_helper_client;
    if (!nvs_link_is_up(&nvs_helper_link) || !client->is_registered || client->is_hung || client->out.todo & ~(uint32_t)(NVS_CLIENT_SEND | NVS_CLIENT_GPUS))
        return -1; /* there is more to do than to answer */
    if (!nvs_link_receive(&nvs_helper_link))
        return -1; /* the helper will find that, too */
    while ((frame = nvs_link_next(&nvs_helper_link, &end, &broken)) && is_ours(frame)) {
        nvs_session_receive(frame, nvs_now_ns(), false);
        if (!nvs_link_is_up(&nvs_helper_link))
            return -1; /* it broke the protocol, and that has been dealt with */
        at = end;
    }
    nvs_link_consume(&nvs_helper_link, at);
    nvs_session_ping(nvs_now_ns()); /* or the scheduler would take us for hung */
    nvs_link_flush(&nvs_helper_link);
    if (!frame && !broken && !nvs_link_may_have_more(&nvs_helper_link))
        nvs_asks_refuse_overdue(read_ns);
    return frame || broken ? -1 : nvs_helper_link.fd.fd;
}

static void stand_in(void)
{
    if (!nvs_lock_try(&conversation_lock))
        return; /* the helper is back */
    int fd = answer();
    nvs_lock_give(&conversation_lock);
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    struct timespec most = {.tv_nsec = PATIENCE_NS / 2};
    if (fd >= 0)
        ppoll(&polled, 1, &most, NULL);
    else
        nvs_sleep_ns(PATIENCE_NS / 2);
}

/* `is_awake` falls before the last look at `calls`: pairs with nvs_deputy_driver_begin, which raises `calls` first. One of the two
 * sees the other. */
static void rest(uint32_t seen)
{
    atomic_store(&is_awake, 0);
    if (atomic_load(&calls) == seen)
        nvs_futex_wait(&is_awake, 0, -1);
    atomic_store(&is_awake, 1);
}

static void *deputy(void *nothing)
{
    uint32_t seen = 0;
    nvs_thread_name("nvshare-deputy");
    for (int quiet = 0;; quiet++) {
        uint32_t now = atomic_load(&calls);
        if (is_kept_waiting()) {
            stand_in();
            quiet = 0;
            continue;
        }
        if (now != seen || atomic_load(&in_driver_ns))
            quiet = 0;
        seen = now;
        if (quiet > REST_LOOKS)
            rest(seen);
        else
            nvs_sleep_ns(PATIENCE_NS);
    }
    return nothing;
}

/* Without a deputy the scheduler waits for the helper. The helper may call the driver each millisecond, and an attempt that fails maps a
 * stack and unmaps it: while there are too many threads it makes one attempt per second. */
static void start_deputy(int64_t now)
{
    if (now < start_again_ns)
        return;
    has_deputy = nvs_thread_start(deputy, NULL) == 0;
    start_again_ns = now + START_AGAIN_NS;
}

void nvs_deputy_driver_begin(void)
{
    int64_t now = nvs_now_ns();
    if (!has_deputy)
        start_deputy(now);
    atomic_store(&in_driver_ns, now);
    atomic_fetch_add(&calls, 1);
    if (has_deputy && !atomic_exchange(&is_awake, 1))
        nvs_futex_wake_all(&is_awake);
    nvs_lock_give(&conversation_lock);
}

void nvs_deputy_driver_end(void)
{
    atomic_store(&in_driver_ns, 0);
    nvs_lock_take(&conversation_lock);
}

void nvs_deputy_forked(void)
{
    nvs_lock_reset(&conversation_lock);
    atomic_store(&in_driver_ns, 0);
    atomic_store(&is_awake, 0);
    has_deputy = false;
    start_again_ns = 0;
}
