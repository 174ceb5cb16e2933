#include "helper/joining.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "base/platform.h"
#include "helper/user_lines.h"
#include "helper/session.h"

enum {
    JOINING, /* nothing is known yet */
    AWAY,    /* no scheduler, but one is expected: the gates are open, and allocations wait for it */
    JOINED,  /* gates and accounts are as the scheduler, or its lasting absence, says */
};
static _Atomic uint32_t progress;  /* a futex; only the helper stores it, and it only grows, except in a forked child */
static _Atomic bool has_said_wait; /* a thread has said why the first allocation waits; only swapped: one thread says it */

/* The store is a release: it pairs with the loads in wait_beyond, nvs_joining_wait_known and nvs_joining_wait_done. The helper has set
 * gates and accounts before, and a thread that reads the new state sees them; otherwise an allocation could pass without its limit. The store
 * comes before the wake-up: a thread that read the old state finds it changed when it is about to sleep (wait_beyond). Otherwise it
 * could sleep for the whole joining time. */
static void set(uint32_t state)
{
    if (atomic_load(&progress) >= state)
        return;
    atomic_store(&progress, state);
    nvs_futex_wake_all(&progress);
}

/* Waits while the state is at most `last`, at most for the joining time. `seen` is what the futex compares with: pairs with set. */
static void wait_beyond(uint32_t last)
{
    int64_t end = nvs_now_ns() + nvs_options()->join_ms * NVS_MS, left;
    uint32_t seen;
    while ((seen = atomic_load(&progress)) <= last && (left = end - nvs_now_ns()) > 0)
        nvs_futex_wait(&progress, seen, left);
}

void nvs_joining_wait_known(void)
{
    /* Acquire pairs with the store in set: a thread that goes on sees the gates as the scheduler, or its absence, left them. */
    if (NVS_UNLIKELY(atomic_load_explicit(&progress, memory_order_acquire) == JOINING))
        wait_beyond(JOINING);
}

void nvs_joining_wait_done(void)
{
    /* Acquire pairs with the store in set: a thread that goes on sees the limit that came with the answer. */
    if (NVS_LIKELY(atomic_load_explicit(&progress, memory_order_acquire) == JOINED))
        return;
    wait_beyond(JOINING);
    if (atomic_load(&progress) != AWAY)
        return;
    bool is_first = !atomic_exchange(&has_said_wait, true);
    if (is_first)
        nvs_user_lines_of_wait_for_limit();
    wait_beyond(AWAY);
    if (is_first && !nvs_session_is_registered())
        nvs_user_lines_of_no_limit();
}

void nvs_joining_away(void) { set(AWAY); }

void nvs_joining_done(void) { set(JOINED); }

/* The child has one thread, so nothing is to be ordered here. Its helper is started later, and sees both. */
void nvs_joining_forked(void)
{
    atomic_store(&progress, JOINING);
    atomic_store(&has_said_wait, false);
}
