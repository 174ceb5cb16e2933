/* The library's mutex, and the table of all mutexes with their order.
 *
 * Order: a thread may take a lock only while every lock that it holds has a smaller rank. So no two threads can wait for
 * each other. nvs_lock_try never waits and is exempt.
 *
 * | rank    | lock               | where            | protects                         | locks taken while it is held      |
 * |---------|--------------------|------------------|----------------------------------|-----------------------------------|
 * | SETUP   | setup_lock         | process.c        | the set-up of the process        | WAKE                              |
 * | SESSION | conversation_lock  | helper/deputy.c  | the conversation with the        | POOLS, STREAMS (only tried),      |
 * |         |                    |                  | scheduler                        | SHARD, ACCOUNT, ASK, WAKE         |
 * | POOLS   | pools_lock         | memory/pools.c   | the table of memory pools        | SHARD, ACCOUNT, WAKE              |
 * | STREAMS | nvs_streams_lock   | gate/streams.c   | streams, contexts, drain events, | ACCOUNT, WAKE                     |
 * |         |                    |                  | frees in stream order, the list  |                                   |
 * |         |                    |                  | of driver calls under way        |                                   |
 * | SHARD   | shard.lock (16)    | memory/entries.c | one part of the ledger           | ACCOUNT, WAKE                     |
 * | GRAPHS  | graphs_lock        | mover/graphs.c   | what instances of graphs use     | none                              |
 * | ACCOUNT | account_lock       | gpu.h, per GPU   | the GPU's account                | WAKE                              |
 * | ASK     | ask_lock           | helper/asks.c    | the questions about budget       | none                              |
 * | WAKE    | wake_lock          | helper/wake.c    | the socket pair of the wake-up   | none                              |
 * | STUBS   | table_lock         | suspend/stubs.c  | the functions behind the stubs   | none                              |
 *
 * - The driver is called while SETUP is held, but never while another lock is held: any driver call may wait for seconds.
 *   Instead, the objects that a call uses are marked (gate/calls.h, `asking` in memory/pools.c). So the helper may wait for
 *   every lock except SETUP.
 * - The helper holds SESSION, and releases it while it is in the driver (helper/deputy.c). No thread of the program takes it.
 * - No thread waits for the helper while it holds a lock: an allocation from a pool releases POOLS before it asks for budget.
 * - After a fork, nvs_process_forked resets every lock, because the thread that held it does not exist in the child. The locks of
 *   the accounts are initialised again with their GPUs (nvs_gpu_setup), before any code in the child takes one.
 *
 * Sanitizer builds (NVS_CHECK_LOCK_ORDER) check the order and the last column at every take, and that the thread cannot be
 * cancelled at any time; they abort when this is violated. tests/house checks that this table names every lock, and that its last
 * column is the one that is checked (base/lock.c). */
#ifndef NVS_LOCK_H
#define NVS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

enum nvs_lock_rank {
    NVS_LOCK_SETUP = 1,
    NVS_LOCK_SESSION,
    NVS_LOCK_POOLS,
    NVS_LOCK_STREAMS,
    NVS_LOCK_SHARD,
    NVS_LOCK_GRAPHS,
    NVS_LOCK_ACCOUNT,
    NVS_LOCK_ASK,
    NVS_LOCK_WAKE,
    NVS_LOCK_STUBS,
};

/* A futex, not a pthread_mutex_t: it can be reset in a forked child, whichever thread held it in the parent. */
struct nvs_lock {
    _Atomic uint32_t word; /* 0 free, 1 taken, 2 taken and a thread may sleep on it */
    uint32_t rank;         /* enum nvs_lock_rank; read by the check only */
};
#define NVS_LOCK_WITH_RANK(of) {.rank = (of)}

void nvs_lock_take(struct nvs_lock *lock);
/* Takes the lock if it is free; never waits. */
bool nvs_lock_try(struct nvs_lock *lock);
void nvs_lock_give(struct nvs_lock *lock);
/* In a forked child: the lock is free, whichever thread held it in the parent. */
void nvs_lock_reset(struct nvs_lock *lock);

#endif
