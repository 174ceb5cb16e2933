/* Small things everybody needs: handles that stay readable, counts one can wait for, a sorted map of address ranges. */
#define _GNU_SOURCE
#include "driver.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Every object is preceded by this. */
struct handle_head { struct handle_head *next; uint32_t kind, pad; };

static struct handle_head *free_handles[SIM_KIND_END - SIM_CONTEXT];
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;

void *sim_handle_new(enum sim_kind kind, size_t size)
{
    pthread_mutex_lock(&handle_lock);
    struct handle_head *head = free_handles[kind - SIM_CONTEXT];
    if (head != NULL)
        free_handles[kind - SIM_CONTEXT] = head->next;
    pthread_mutex_unlock(&handle_lock);
    if (head == NULL)
        head = malloc(sizeof *head + size);
    if (head == NULL)
        return NULL;
    head->kind = kind;
    memset(head + 1, 0, size);
    *(uint32_t *)(head + 1) = kind;
    return head + 1;
}

void sim_handle_free(void *handle)
{
    struct handle_head *head = (struct handle_head *)handle - 1;
    *(uint32_t *)handle = 0;
    pthread_mutex_lock(&handle_lock);
    head->next = free_handles[head->kind - SIM_CONTEXT];
    free_handles[head->kind - SIM_CONTEXT] = head;
    pthread_mutex_unlock(&handle_lock);
}

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

/* `wake_at` is the lowest count somebody sleeps for, 0 if nobody does. Who reaches it clears it, then changes `wakes`, the
 * futex. A sleeper reads `wakes` first, then puts its count into `wake_at`, then looks at the count: if its entry was
 * cleared meanwhile, `wakes` has changed and it does not sleep. */
void sim_gate_raise(struct sim_gate *gate, uint64_t count)
{
    atomic_store(&gate->count, count);
    uint64_t wake_at = atomic_load(&gate->wake_at);
    if (wake_at == 0 || count < wake_at)
        return;
    atomic_store(&gate->wake_at, 0);
    atomic_fetch_add(&gate->wakes, 1);
    sim_futex_wake(&gate->wakes, false);
}

void sim_gate_announce(struct sim_gate *gate, uint64_t count)
{
    uint64_t earliest = atomic_load(&gate->wake_at);
    while ((earliest == 0 || count < earliest) && !atomic_compare_exchange_weak(&gate->wake_at, &earliest, count))
        ;
}

void sim_gate_wait(struct sim_gate *gate, uint64_t count)
{
    while (atomic_load_explicit(&gate->count, memory_order_acquire) < count) {
        uint32_t wakes = atomic_load(&gate->wakes);
        sim_gate_announce(gate, count);
        if (atomic_load(&gate->count) < count)
            sim_futex_wait(&gate->wakes, wakes, SIM_NEVER, false);
    }
}

/* ---- ranges: sorted arrays, few entries and rare changes ---- */

static struct { struct sim_range *at; size_t count, room; } maps[SIM_RANGE_MAPS];
static pthread_rwlock_t range_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Index of the first range that begins above the address. */
static size_t above(enum sim_range_map map, uint64_t address)
{
    size_t low = 0, high = maps[map].count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (maps[map].at[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sim_range_add(enum sim_range_map map, uint64_t base, uint64_t size, void *owner)
{
    pthread_rwlock_wrlock(&range_lock);
    size_t at = above(map, base);
    bool free_below = at == 0 || maps[map].at[at - 1].base + maps[map].at[at - 1].size <= base;
    bool free_above = at == maps[map].count || base + size <= maps[map].at[at].base;
    if (free_below && free_above && maps[map].count == maps[map].room) {
        size_t room = maps[map].room == 0 ? 64 : 2 * maps[map].room;
        struct sim_range *grown = realloc(maps[map].at, room * sizeof *grown);
        if (grown != NULL) {
            maps[map].at = grown;
            maps[map].room = room;
        }
    }
    bool added = free_below && free_above && maps[map].count < maps[map].room;
    if (added) {
        memmove(&maps[map].at[at + 1], &maps[map].at[at], (maps[map].count - at) * sizeof(struct sim_range));
        maps[map].at[at] = (struct sim_range){.base = base, .size = size, .owner = owner};
        maps[map].count++;
    }
    pthread_rwlock_unlock(&range_lock);
    return added;
}

static bool find_unlocked(enum sim_range_map map, uint64_t address, size_t *at)
{
    size_t index = above(map, address);
    if (index == 0 || address - maps[map].at[index - 1].base >= maps[map].at[index - 1].size)
        return false;
    *at = index - 1;
    return true;
}

bool sim_range_find(enum sim_range_map map, uint64_t address, struct sim_range *range)
{
    size_t at;
    pthread_rwlock_rdlock(&range_lock);
    bool found = find_unlocked(map, address, &at);
    if (found)
        *range = maps[map].at[at];
    pthread_rwlock_unlock(&range_lock);
    return found;
}

bool sim_range_remove(enum sim_range_map map, uint64_t base, struct sim_range *range)
{
    size_t at;
    pthread_rwlock_wrlock(&range_lock);
    bool found = find_unlocked(map, base, &at) && maps[map].at[at].base == base;
    if (found) {
        *range = maps[map].at[at];
        memmove(&maps[map].at[at], &maps[map].at[at + 1], (--maps[map].count - at) * sizeof(struct sim_range));
    }
    pthread_rwlock_unlock(&range_lock);
    return found;
}
