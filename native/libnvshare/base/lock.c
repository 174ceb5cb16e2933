#include "base/lock.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/platform.h"

#ifdef NVS_CHECK_LOCK_ORDER
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_HELD = 8 };
static __thread const struct nvs_lock *held[MAX_HELD];

/* The last column of the table in base/lock.h. */
#define BIT(rank) (UINT32_C(1) << NVS_LOCK_##rank)
static const uint32_t taken_inside[] = {
    [NVS_LOCK_SETUP] = BIT(WAKE),
    [NVS_LOCK_SESSION] = BIT(POOLS) | BIT(STREAMS) | BIT(SHARD) | BIT(ACCOUNT) | BIT(ASK) | BIT(WAKE),
    [NVS_LOCK_POOLS] = BIT(SHARD) | BIT(ACCOUNT) | BIT(WAKE),
    [NVS_LOCK_STREAMS] = BIT(ACCOUNT) | BIT(WAKE),
    [NVS_LOCK_SHARD] = BIT(ACCOUNT) | BIT(WAKE),
    [NVS_LOCK_GRAPHS] = 0,
    [NVS_LOCK_ACCOUNT] = BIT(WAKE),
    [NVS_LOCK_ASK] = 0,
    [NVS_LOCK_WAKE] = 0,
    [NVS_LOCK_STUBS] = 0,
};

static bool may_take(const struct nvs_lock *lock, const struct nvs_lock *holding)
{
    return lock->rank && (!holding || (holding->rank < lock->rank && taken_inside[holding->rank] >> lock->rank & 1));
}

static void check_before_wait(const struct nvs_lock *lock)
{
    for (int i = 0; i < MAX_HELD; i++)
        if (!may_take(lock, held[i])) {
            fprintf(stderr, "lock order: rank %u taken while rank %u is held (base/lock.h)\n", lock->rank, held[i] ? held[i]->rank : 0);
            abort();
        }
}

/* A thread that is cancelled while it holds a lock leaves it held for ever (base/cancellation.h). */
static void check_cancellation(void)
{
    int type, ours;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    if (type == PTHREAD_CANCEL_ASYNCHRONOUS) {
        fprintf(stderr, "lock order: a lock is taken by a thread that may be cancelled at any time\n");
        abort();
    }
    pthread_setcanceltype(type, &ours);
}

static void replace_held(const struct nvs_lock *old, const struct nvs_lock *new)
{
    if (new)
        check_cancellation();
    for (int i = 0; i < MAX_HELD; i++)
        if (held[i] == old) {
            held[i] = new;
            return;
        }
    fprintf(stderr, "lock order: a lock is given back by a thread that does not hold it\n");
    abort();
}
#else
static inline void check_before_wait(const struct nvs_lock *lock) { (void)lock; }
static inline void replace_held(const struct nvs_lock *old, const struct nvs_lock *new) { (void)old, (void)new; }
#endif

/* Acquire here pairs with release in nvs_lock_give: what the previous holder wrote under the lock is visible. */
static void wait_and_take(struct nvs_lock *lock)
{
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        nvs_futex_wait(&lock->word, 2, -1);
}

static bool take_if_free(struct nvs_lock *lock)
{
    uint32_t zero = 0;
    return atomic_compare_exchange_strong_explicit(&lock->word, &zero, 1, memory_order_acquire, memory_order_relaxed);
}

bool nvs_lock_try(struct nvs_lock *lock)
{
    bool taken = take_if_free(lock);
    if (taken)
        replace_held(NULL, lock);
    return taken;
}

void nvs_lock_take(struct nvs_lock *lock)
{
    check_before_wait(lock);
    if (!take_if_free(lock))
        wait_and_take(lock);
    replace_held(NULL, lock);
}

/* Release pairs with acquire in take_if_free and wait_and_take. 2 says that a thread may sleep: without the wake-up it would
 * sleep for ever. */
void nvs_lock_give(struct nvs_lock *lock)
{
    replace_held(lock, NULL);
    if (atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2)
        nvs_futex_wake_one(&lock->word);
}

void nvs_lock_reset(struct nvs_lock *lock) { atomic_store(&lock->word, 0); }
