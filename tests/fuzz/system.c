/* What lies around the helper thread, played: clock, locks, sockets, the GPU's gate, streams and pools. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "gate/drain.h"
#include "gate/threads.h"
#include "helper/deputy.h"
#include "helper/gpu_time.h"
#include "helper/wake.h"
#include "lookup/real.h"
#include "memory/pools.h"
#include "suspend/passage.h"
#include "suspend/suspension.h"
#include "world.h"
#include "mover/hold.h"
#include "mover/evidence.h"
#include "mover/mover.h"

enum { SOCKET = 1 << 28, WAKE, MAX_SPINS = 64 };

void *(*world_helper)(void *);

void nvs_deputy_helper_began(void) {}
void nvs_deputy_driver_begin(void) {}
void nvs_deputy_driver_end(void) {}
void nvs_deputy_forked(void) {}
void nvs_thread_name(const char *name) { (void)name; }
int64_t nvs_now_ns(void) { return world.now_ns; }
int nvs_thread_start(void *(*body)(void *), void *argument)
{
    (void)argument;
    world_helper = body;
    return 0;
}
void nvs_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    world_require(timeout_ns > 0, "nobody waits for a time that is over");
    if (atomic_load(word) == expected)
        world_thread_waits(timeout_ns);
}
void nvs_futex_wake_all(_Atomic uint32_t *word) { (void)word; }
bool nvs_lock_try(struct nvs_lock *lock) { return !atomic_exchange(&lock->word, 1); }
void nvs_lock_take(struct nvs_lock *lock) { world_require(nvs_lock_try(lock), "nobody waits for a lock that it holds"); }
void nvs_lock_reset(struct nvs_lock *lock) { atomic_store(&lock->word, 0); }
void nvs_lock_give(struct nvs_lock *lock) { world_require(atomic_exchange(&lock->word, 0), "only a lock that is held is given back"); }

void *nvs_pages(size_t bytes) { return calloc(1, bytes); }
void *nvs_pages_sparse(size_t bytes) { return nvs_pages(bytes); }
void nvs_pages_free(void *pages, size_t bytes) { (void)bytes, free(pages); }

struct nvs_owned_fd nvs_fd_own(int fd) { return (struct nvs_owned_fd){.fd = fd}; }
bool nvs_fd_is_ours(const struct nvs_owned_fd *owned) { return owned->fd == SOCKET && !world.is_stolen; }
void nvs_fd_close(struct nvs_owned_fd *owned)
{
    if (owned->fd >= 0)
        world.is_connected = false;
    owned->fd = -1;
}

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
    (void)protocol;
    world_require(domain == AF_UNIX && type & SOCK_NONBLOCK && type & SOCK_CLOEXEC, "our socket never blocks and is not inherited");
    return SOCKET;
}

int nvs_fd_connect(const struct nvs_owned_fd *owned, const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    world_require(owned->fd == SOCKET && !world.is_connected, "one connection at a time");
    if (world.connect_error) {
        errno = world.connect_error;
        return -1;
    }
    world.said = world.taken = world.handled = world.registers = 0;
    world.put = world.sent = 0;
    world.is_connected = true;
    world.is_stolen = world.is_hung_up = false;
    return 0;
}

ssize_t nvs_fd_send(const struct nvs_owned_fd *owned, const void *bytes, size_t count)
{
    (void)bytes;
    world_require(owned->fd == SOCKET, "only our socket is written to");
    if (world.is_hung_up || !world.send_room) {
        errno = world.is_hung_up ? EPIPE : EAGAIN;
        return -1;
    }
    count = count < world.send_room ? count : world.send_room;
    world.sent += count;
    return (ssize_t)count;
}

ssize_t nvs_fd_receive(const struct nvs_owned_fd *owned, void *bytes, size_t room)
{
    size_t count = world.said - world.taken;
    world_require(owned->fd == SOCKET, "only our socket is read");
    world_require(room > 0, "there is always room for more");
    count = count < room ? count : room;
    count = world.piece && world.piece < count ? world.piece : count;
    if (!count) {
        errno = EAGAIN;
        return world.is_hung_up ? 0 : -1;
    }
    memcpy(bytes, world.stream + world.taken, count);
    world.taken += count;
    return (ssize_t)count;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    (void)mask;
    world_require(count == 2 && fds[0].fd == WAKE && timeout, "the helper can be woken, and wakes by itself");
    world_check();
    bool is_readable = world.is_connected && (world.said > world.taken || world.is_hung_up);
    int64_t left = timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec;
    world.spins = left || world.is_woken || is_readable ? 0 : world.spins + 1;
    world_require(world.spins < MAX_SPINS, "the helper does not spin");
    if (!world.is_woken && !is_readable)
        world_goes_on(left);
    return 0;
}

void nvs_wake_open(void) {}
int nvs_wake_fd(void) { return WAKE; }
bool nvs_wake_is_broken(void) { return false; }
void nvs_wake_clear(void) { world.is_woken = false; }
void nvs_wake_forked(void) {}
void nvs_wake_helper(void) { world.is_woken = true; }

/* ---- the GPU, its streams and pools ---- */

static struct world_gpu *of(const struct nvs_gpu *gpu)
{
    world_require(gpu >= nvs_gpus && gpu < nvs_gpus + nvs_gpu_count, "the GPU is one of ours");
    return &world.gpus[gpu - nvs_gpus];
}

bool nvs_threads_any_inside(const struct nvs_gpu *gpu) { return of(gpu)->is_inside; }
void nvs_gate_open(struct nvs_gpu *gpu)
{
    of(gpu)->is_open = true;
    of(gpu)->is_watched = false;
}
void nvs_gate_call_waiters(struct nvs_gpu *gpu) { (void)gpu; }
void nvs_gate_close(struct nvs_gpu *gpu) { of(gpu)->is_open = of(gpu)->is_watched = false; }
void nvs_gate_watch(struct nvs_gpu *gpu) { of(gpu)->is_watched = of(gpu)->is_open; }
void nvs_gate_unwatch(struct nvs_gpu *gpu) { of(gpu)->is_watched = false; }
bool nvs_gate_is_watched(const struct nvs_gpu *gpu) { return of(gpu)->is_watched; }
void nvs_gate_force_slow_path(struct nvs_gpu *gpu) { world_require(of(gpu)->is_open, "streams are looked at again while the gate is open"); }
bool nvs_gate_is_closed(const struct nvs_gpu *gpu) { return !of(gpu)->is_open; }
/* Nobody takes what is offered here: tests/model plays that. */
void nvs_gate_offer(struct nvs_gpu *gpu, uint32_t offer)
{
    world_require(offer && !of(gpu)->is_open, "one submission is offered while the gate is closed");
}
bool nvs_gate_withdraw(struct nvs_gpu *gpu, uint32_t offer) { return of(gpu)->is_open || offer; }
bool nvs_gate_is_taken(const struct nvs_gpu *gpu, uint32_t offer) { return of(gpu)->is_open && !offer; }
void nvs_drain_begin(struct nvs_gpu *gpu) { world_require(!of(gpu)->is_inside, "a drain begins when all threads are out"); }
bool nvs_drain_step(struct nvs_gpu *gpu, bool is_urgent)
{
    world_require(is_urgent == gpu->is_draining, "only a drain before a release is urgent");
    return !of(gpu)->is_busy;
}
bool nvs_drain_finish(struct nvs_gpu *gpu, bool was_closed)
{
    world_require(was_closed == !of(gpu)->is_open, "nobody but the helper opens and closes the gate");
    return !of(gpu)->is_inside;
}
bool nvs_drain_needs_driver(const struct nvs_gpu *gpu) { return of(gpu)->is_inside; } /* the program does not exit here */
void nvs_drain_allow_captures(const struct nvs_gpu *gpu) { world_require(!gpu->is_draining, "an ended drain is over"); }
bool nvs_pools_exist(void) { return true; }
bool nvs_pools_have_slack(void) { return false; }
void nvs_pools_refresh(void) {}
bool nvs_real_encoder_is_used(void) { return false; }
bool nvs_real_collectives_are_used(void) { return true; }

/* ---- options, and what is said to the user ---- */

/* Moves take no time here. */
static struct nvs_moved move;
static const struct nvs_gpu *moving;

void nvs_mover_start(struct nvs_gpu *gpu, bool to_host, uint64_t bytes)
{
    world_require(of(gpu)->is_open != to_host, "memory moves in while the gate is open, and out while it is closed");
    move = (struct nvs_moved){.to_host = to_host, .bytes = bytes, .ns = 1};
    moving = gpu;
}

/* Changes each second: the scheduler is told each time. */
uint8_t nvs_mover_state(const struct nvs_gpu *gpu)
{
    (void)gpu;
    return nvs_now_ns() / (1000 * NVS_MS) % 2 ? NVS_MOVER_STATE_NO_EFFECT : NVS_MOVER_STATE_MOVES;
}

void nvs_mover_stop(struct nvs_gpu *gpu) { moving = moving == gpu ? NULL : moving; }

/* No process here is in memory mode checkpoint, and none looks at its GPU time. */
bool nvs_suspension_is_asked_for(void) { return false; }
bool nvs_suspension_is_used(void) { return false; }
uint8_t nvs_suspension_mode(void) { return 0; }
bool nvs_suspension_is_on_card(void) { return true; }
bool nvs_suspension_left(struct nvs_gpu *gpu) { return gpu != NULL; }
void nvs_suspension_open(struct nvs_gpu *gpu) { (void)gpu; }
void nvs_suspension_close(void) {}
void nvs_suspension_ends(void) {}
int64_t nvs_suspension_tick(struct nvs_gpu *gpu, int64_t now_ns) { return (void)gpu, (void)now_ns, INT64_MAX; }
bool nvs_passage_has_paid(uint64_t bytes) { return (void)bytes, false; }
void nvs_passage_charged(uint64_t bytes) { (void)bytes; }
void nvs_passage_charge_refused(void) {}
int64_t nvs_gpu_time_tick(struct nvs_gpu *gpu, int64_t now_ns) { return (void)gpu, (void)now_ns, INT64_MAX; }
bool nvs_gpu_time_wants_watch(const struct nvs_gpu *gpu) { return gpu == NULL; }
void nvs_gpu_time_leave_driver(void) {}
void nvs_gpu_time_forked(void) {}

int64_t nvs_mover_tick(struct nvs_gpu *gpu, int64_t now_ns, struct nvs_moved *moved, bool *has_ended)
{
    (void)now_ns;
    *has_ended = moving == gpu;
    if (*has_ended) {
        *moved = move;
        moving = NULL;
    }
    return INT64_MAX;
}

/* Nothing is known of what the program uses. */
struct nvs_usage nvs_evidence;
bool nvs_evidence_sees_launches(void) { return false; }

/* Nor does holding memory on the host. */
static uint64_t held[NVS_MAX_GPUS];
static bool is_held[NVS_MAX_GPUS];

void nvs_hold_want(struct nvs_gpu *gpu, uint64_t bytes)
{
    held[gpu->index] = bytes;
    is_held[gpu->index] = true;
}

int64_t nvs_hold_tick(struct nvs_gpu *gpu, int64_t now_ns, bool is_open, uint64_t *bytes, bool *is_done)
{
    (void)now_ns;
    world_require(is_open == of(gpu)->is_open, "memory is brought back while the gate is open");
    *is_done = is_held[gpu->index];
    *bytes = held[gpu->index];
    is_held[gpu->index] = false;
    return INT64_MAX;
}

const struct nvs_options *nvs_options(void)
{
    static const struct nvs_options options = {.debug = true, .reconnect_ms = 1000, .orphan_wait_ms = 5000, .join_ms = 30000,
                                               .silence_ms = 25000, .ask_ms = 1000, .socket = "/s", .name = "fuzz"};
    return &options;
}

static void say(const char *format, va_list arguments)
{
    int bytes = vsnprintf(world.line, sizeof world.line, format, arguments);
    const unsigned char *text = (unsigned char *)world.line;
    world_require(bytes > 0 && bytes < (int)sizeof world.line, "a line has an end");
    for (int i = 0; i < bytes; i++) {
        bool is_c1 = text[i] == 0xc2 && text[i + 1] >= 0x80 && text[i + 1] < 0xa0;
        world_require(text[i] >= ' ' && text[i] != 0x7f && !is_c1, "no control characters for the user's terminal");
    }
}

#define LINE(name) \
    void name(const char *format, ...) \
    { \
        va_list arguments; \
        va_start(arguments, format); \
        say(format, arguments); \
        va_end(arguments); \
    }
LINE(nvs_info)
LINE(nvs_warn)
LINE(nvs_debug)
