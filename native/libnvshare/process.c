/* Set-up in the first call that finds the driver initialised, reset in a forked child, exit. */
#include "process.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/log.h"
#include "base/options.h"
#include "gate/drain.h"
#include "gate/enter.h"
#include "gate/frees.h"
#include "gate/streams.h"
#include "gpu.h"
#include "helper/session.h"
#include "lookup/real.h"
#include "memory/entries.h"
#include "memory/memory.h"
#include "memory/managed_pools.h"
#include "memory/pools.h"
#include "mover/advice.h"
#include "mover/evidence.h"
#include "mover/graphs.h"
#include "mover/hold.h"
#include "mover/mover.h"
#include "suspend/stubs.h"
#include "suspend/suspension.h"

/* On pages that the kernel clears in a child, also in one made by a bare clone. So every gate of the child is closed, and the first
 * launch takes the slow path and finds is_alive 0. */
struct wiped {
    _Atomic uint32_t is_alive; /* 1: this process, not its parent, has been set up */
    _Atomic uint32_t life;     /* enum life; a futex */
    char rest_of_line[56];
    struct nvs_gate gates[NVS_MAX_GPUS];
};

/* What was inherited from the parent is still there; is being reset; was reset, or there was no parent. */
enum life { INHERITED, BEGINNING, BEGUN };
enum state { UNSET, READY, OFF };
static _Atomic int state;
static struct nvs_lock setup_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_SETUP);
static struct wiped *_Atomic wiped;
static pid_t owner;

/* What the process holds counts until the kernel has taken it back. So nothing is given back here, and the helper and its
 * connection stay: exit handlers that run later and other threads still use the GPU and need turns. The scheduler learns of the
 * end from the closed connection. But the driver's own exit handlers run after this one, so the helper must not call the driver
 * from here on. */
static void program_ends(void)
{
    if (owner != getpid())
        return;
    nvs_suspension_exits();
    nvs_session_leave_driver();
}

/* After the driver's own handlers were registered: see program_ends. */
static void once_per_program(void)
{
    static _Atomic bool done;
    if (!atomic_exchange(&done, true))
        atexit(program_ends);
}

/* With the setup lock held. */
static int set_up(void)
{
    int count = 0;
    struct wiped *own = atomic_load(&wiped);
    int loaded = nvs_real_load(); /* first: a disabled library forwards all calls too */
    if (nvs_options()->disable)
        return OFF;
    if (loaded != 0 || nvs_real.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return UNSET;
    if (count < 1)
        return OFF;
    nvs_gpu_count = count < NVS_MAX_GPUS ? count : NVS_MAX_GPUS;
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_gpu_setup(i, &own->gates[i]);
    nvs_real_look_for_encoder();
    nvs_real_look_for_collectives();
    nvs_evidence_setup();
    nvs_enter_setup();
    nvs_suspension_setup();
    if (nvs_gpu_count > 1)
        nvs_enter_by_context();
    owner = getpid();
    once_per_program();
    atomic_store(&own->is_alive, 1); /* before the release of READY in set_up_once: a thread that reads READY finds it */
    int error = nvs_session_start();
    if (error) {
        nvs_warn("cannot start a thread (%s): this process runs unshared and without a memory limit", strerror(error));
        return OFF;
    }
    return READY;
}

/* Of several threads the swap lets one win, and its pages are the ones that all use: with two, one thread could wait for a `life` that
 * nobody changes. Once there, `wiped` never changes; the child inherits it. */
static struct wiped *wiped_pages(void)
{
    struct wiped *there = atomic_load(&wiped), *made = there ? NULL : nvs_pages_wiped_on_fork(sizeof *made);
    if (!made || atomic_compare_exchange_strong(&wiped, &there, made))
        return there ? there : made;
    nvs_pages_free(made, sizeof *made); /* another thread was faster */
    return there;
}

/* By one thread while no other one uses any of it: the child's only thread, or the one that begin_life has chosen, whose store of BEGUN
 * orders all of this for the others. So no store here needs an order of its own. A thread that still reads the inherited READY is stopped
 * by is_alive, which the kernel has cleared, and waits in begin_life. */
static void reset(void)
{
    struct wiped *own = atomic_load(&wiped);
    nvs_lock_reset(&setup_lock);
    if (atomic_load(&state) == OFF)
        return;
    atomic_store(&state, UNSET);
    for (int i = 0; own && i < NVS_MAX_GPUS; i++)
        atomic_store(&own->gates[i].word, 0);
    nvs_session_forked();
    nvs_enter_forked();
    nvs_streams_forked();
    nvs_drain_forked();
    nvs_frees_forked();
    nvs_entries_forked();
    nvs_pools_forked();
    nvs_managed_pools_forked();
    nvs_advice_forked();
    nvs_mover_forked();
    nvs_hold_forked();
    nvs_graphs_forked();
    nvs_suspension_forked();
    nvs_stubs_forked();
}

/* Before anything is set up, and before a lock is taken that a child could inherit: once in each process. The first process registers
 * what resets its children, also those that are forked while it is being set up. A child made without fork(), or where the C library
 * has no such handlers, resets itself: one thread does, and the others wait for it. False if there is no memory.
 *
 * The store of BEGUN is a release: it pairs with the loads of the waiters, which then find everything reset. Otherwise a thread could take
 * the lock before it is reset, and two threads would set up at the same time. */
static bool begin_life(void)
{
    static _Atomic bool has_begun; /* in this process or in its parent */
    struct wiped *own = wiped_pages();
    uint32_t seen = INHERITED;
    if (!own)
        return false;
    if (atomic_compare_exchange_strong(&own->life, &seen, BEGINNING)) {
        if (atomic_exchange(&has_begun, true))
            reset();
        else
            nvs_at_fork_child(nvs_process_forked);
        atomic_store(&own->life, BEGUN);
        nvs_futex_wake_all(&own->life);
    }
    while (atomic_load(&own->life) != BEGUN)
        nvs_futex_wait(&own->life, BEGINNING, -1);
    return true;
}

/* A function of its own, so that nvs_process_ready saves no registers for it. */
static __attribute__((noinline)) bool set_up_once(void)
{
    NVS_NO_CANCELLATION;
    if (!begin_life()) {
        nvs_real_load(); /* the caller forwards its call */
        return false;
    }
    nvs_lock_take(&setup_lock);
    if (atomic_load(&state) == UNSET)
        atomic_store_explicit(&state, set_up(), memory_order_release);
    nvs_lock_give(&setup_lock);
    return atomic_load(&state) == READY;
}

/* The kernel clears it in a child; no other thread does. Relaxed: nothing is read because of its value except under the lock. */
static bool is_alive(void)
{
    struct wiped *own = atomic_load_explicit(&wiped, memory_order_relaxed);
    return atomic_load_explicit(&own->is_alive, memory_order_relaxed);
}

/* Acquire pairs with the release store of `state` above: a thread that reads READY sees nvs_gpus, nvs_gpu_count, `wiped` and the
 * driver's functions as the thread that set them up left them. */
bool nvs_process_ready(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (NVS_LIKELY(now == READY && is_alive()))
        return true;
    return now != OFF && set_up_once();
}

/* As nvs_process_ready. */
bool nvs_process_is_set_up(void) { return atomic_load_explicit(&state, memory_order_acquire) == READY && is_alive(); }

/* The child's only thread: there is nobody to wait for. A handler of the program may have run before this one and have used the driver:
 * then the child is set up. Both is_alive and the number are compared: the kernel may be too old to clear is_alive,
 * and the child of another PID namespace may have its parent's number. */
void nvs_process_forked(void)
{
    struct wiped *own = atomic_load(&wiped);
    if (own && atomic_load(&own->is_alive) && owner == getpid())
        return;
    reset();
    if (own)
        atomic_store(&own->life, BEGUN);
}
