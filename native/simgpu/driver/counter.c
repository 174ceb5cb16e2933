/* Counts that can be waited for, and the futex calls below them. */
#define _GNU_SOURCE
#include "driver/driver.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int sim_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns, bool shared)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000ull), .tv_nsec = (long)(deadline_ns % 1000000000ull)};
    int operation = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    long result = syscall(SYS_futex, word, operation, value, deadline_ns == SIM_NEVER ? NULL : &until, NULL,
                          FUTEX_BITSET_MATCH_ANY);
    return result < 0 ? -errno : 0;
}

void sim_futex_wake(_Atomic uint32_t *word, bool shared)
{
    syscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), INT32_MAX, NULL, NULL, 0);
}

/* `wake_at` is the lowest count that a thread waits for, 0 if none waits. The thread that reaches it clears it and then
 * changes `wakes`, the futex. A waiting thread reads `wakes` first, then stores its count in `wake_at`, then compares the
 * count: if its entry was cleared in between, `wakes` has changed and the futex call returns at once. */
void sim_counter_raise(struct sim_counter *counter, uint64_t count)
{
    atomic_store(&counter->count, count);
    uint64_t wake_at = atomic_load(&counter->wake_at);
    if (wake_at == 0 || count < wake_at)
        return;
    atomic_store(&counter->wake_at, 0);
    atomic_fetch_add(&counter->wakes, 1);
    sim_futex_wake(&counter->wakes, false);
}

void sim_counter_announce(struct sim_counter *counter, uint64_t count)
{
    uint64_t earliest = atomic_load(&counter->wake_at);
    while ((earliest == 0 || count < earliest) && !atomic_compare_exchange_weak(&counter->wake_at, &earliest, count))
        ;
}

void sim_counter_wait(struct sim_counter *counter, uint64_t count)
{
    while (atomic_load_explicit(&counter->count, memory_order_acquire) < count) {
        uint32_t wakes = atomic_load(&counter->wakes);
        sim_counter_announce(counter, count);
        if (atomic_load(&counter->count) < count)
            sim_futex_wait(&counter->wakes, wakes, SIM_NEVER, false);
    }
}
