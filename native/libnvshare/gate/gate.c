/* The theory of operation is in gate/gate.h. All accesses to the word are sequentially consistent here; only the fast path
 * (gate/enter.h) reads it with relaxed order. */
#include "gate/gate.h"

#include "gate/drain.h"
#include "gate/enter.h"
#include "gpu.h"
#include "helper/wake.h"
#include "process.h"
#include "suspend/passage.h"

/* membarrier is refused: the threads execute fences from now on. A thread that was preempted after it had read the old mode would
 * execute none when it goes on. So the generation changes after the mode: such a thread compares with an old word and does not
 * enter, and a thread that has read a new word reads the new mode too (enter_slow reads the mode after the word). Threads that are
 * between their store and their load now need one more barrier. */
static void change_to_fences(void)
{
    atomic_fetch_or(&nvs_enter_mode.bits, NVS_ENTER_FENCED);
    for (int i = 0; i < nvs_gpu_count; i++)
        nvs_gate_force_slow_path(&nvs_gpus[i]);
    nvs_barrier_once();
}

/* The helper's half of the store-buffering pattern: every store to the word before this call is visible to every thread that
 * is not seen inside after it. Pairs with the signal fence in nvs_enter_fast and with fence_after_store in gate/enter.c.
 * Without it a thread could still read the old word while the helper reads its old "not inside": work would be submitted
 * after the lock was given back. */
static void barrier_all_threads(void)
{
    if (atomic_load(&nvs_enter_mode.bits) & NVS_ENTER_FENCED)
        atomic_thread_fence(memory_order_seq_cst); /* the threads execute their own */
    else if (!nvs_barrier())
        change_to_fences();
}

/* Open before wake_count: a thread that reads the new count in wait_for_turn finds the gate open. */
void nvs_gate_open(struct nvs_gpu *gpu)
{
    atomic_fetch_and(&gpu->gate->word, ~NVS_WORD_WATCH);
    atomic_fetch_or(&gpu->gate->word, NVS_WORD_OPEN);
    nvs_gate_call_waiters(gpu);
}

void nvs_gate_call_waiters(struct nvs_gpu *gpu)
{
    atomic_fetch_add(&gpu->wake_count, 1);
    nvs_futex_wake_all(&gpu->wake_count);
}

void nvs_gate_close(struct nvs_gpu *gpu)
{
    atomic_fetch_and(&gpu->gate->word, ~(NVS_WORD_OPEN | NVS_WORD_WATCH));
    barrier_all_threads();
}

/* A compare-and-swap, because threads change the word too: clear_watch and nvs_gate_force_slow_path. */
void nvs_gate_watch(struct nvs_gpu *gpu)
{
    uint64_t word = atomic_load(&gpu->gate->word);
    while (word & NVS_WORD_OPEN && !atomic_compare_exchange_weak(&gpu->gate->word, &word, word | NVS_WORD_WATCH))
        ;
    barrier_all_threads();
}

/* Read-modify-write: threads change the word too (clear_watch, nvs_gate_force_slow_path), and a store could undo their generation. Without
 * a barrier: a thread that still reads the bit takes the slow path one time, nothing else. */
void nvs_gate_unwatch(struct nvs_gpu *gpu) { atomic_fetch_and(&gpu->gate->word, ~NVS_WORD_WATCH); }

/* Pairs with clear_watch, as described there: the bit is read after is_known_idle is stored. In the other order a thread could clear the bit,
 * find no idleness known, and not wake the helper, which would report a busy process as idle. */
bool nvs_gate_is_watched(const struct nvs_gpu *gpu) { return atomic_load(&gpu->gate->word) & NVS_WORD_WATCH; }

/* In nvs_enter_several and take_offers: the load of the thread's half of the store-buffering pattern, after `inside` is stored and
 * fence_after_store. Pairs with barrier_all_threads. Without them a thread could pass a gate that the helper has closed and found
 * empty. */
bool nvs_gate_is_open(const struct nvs_gpu *gpu)
{
    return (atomic_load(&gpu->gate->word) & (NVS_WORD_OPEN | NVS_WORD_WATCH)) == NVS_WORD_OPEN;
}

/* For the helper, which holds the lock of the conversation (helper/deputy.c): if the deputy has closed the gate, its barrier has been
 * executed too. Otherwise nvs_threads_any_inside, which follows, could miss a thread that has passed the open gate. To a thread of the
 * program it only says where to wait. */
bool nvs_gate_is_closed(const struct nvs_gpu *gpu) { return !(atomic_load(&gpu->gate->word) & NVS_WORD_OPEN); }

/* let_one before wake_count: pairs with wait_for_turn, which reads them in the other order. A thread that misses the offer finds the
 * count changed and does not sleep. */
void nvs_gate_offer(struct nvs_gpu *gpu, uint32_t offer)
{
    atomic_store(&gpu->let_one, offer);
    nvs_gate_call_waiters(gpu);
}

/* Pairs with nvs_gate_take: of the two swaps one succeeds. After a successful one here nobody passes the closed gate. */
bool nvs_gate_withdraw(struct nvs_gpu *gpu, uint32_t offer) { return atomic_compare_exchange_strong(&gpu->let_one, &offer, 0); }

/* Pairs with the swap in nvs_gate_take. If it was taken, the helper withdraws: that swap fails and orders what follows. A stale value
 * delays this by one look; before a drain ends, every offer is withdrawn in any case. */
bool nvs_gate_is_taken(const struct nvs_gpu *gpu, uint32_t offer) { return atomic_load(&gpu->let_one) != offer; }

/* The swap is a release: a thread that finds the offer taken sees the thread inside, or its work in the stream if it has left again.
 * Otherwise the drain could end without that work. */
bool nvs_gate_take(struct nvs_gpu *gpu, uint32_t offer) { return atomic_compare_exchange_strong(&gpu->let_one, &offer, 0); }

/* Pairs with the comparison in nvs_enter_fast and enter_slow: a stream that was noted under the old generation is noted again.
 * The swap fails if a thread has cleared the watch bit since the word was read: that thread may have submitted, so the
 * drained list is no longer complete. Without the watch bit a gate that is closed now says nothing either: the deputy may have closed
 * it after that thread had submitted. */
bool nvs_gate_new_generation(struct nvs_gpu *gpu, bool was_closed)
{
    uint64_t word = atomic_load(&gpu->gate->word);
    do
        if (was_closed ? word & NVS_WORD_OPEN : !(word & NVS_WORD_WATCH))
            return false;
    while (!atomic_compare_exchange_weak(&gpu->gate->word, &word, word + NVS_WORD_GENERATION));
    return true;
}

/* Pairs with the comparison in nvs_enter_fast. A thread that uses a new stream with the old handle has learned the handle from
 * the thread that destroyed the old stream, so it reads this word or a later one. */
void nvs_gate_force_slow_path(struct nvs_gpu *gpu) { atomic_fetch_add(&gpu->gate->word, NVS_WORD_GENERATION); }

/* A thread is about to submit while the helper looks whether the process is idle.
 * Pairs with tick_watch in helper/work.c, which stores is_known_idle and then reads the watch bit; here the bit is cleared and
 * then is_known_idle is read. Both are sequentially consistent, so at least one side sees the other's store. Otherwise the
 * scheduler would take a busy process for idle. */
static void clear_watch(struct nvs_gpu *gpu, uint64_t word)
{
    if (atomic_compare_exchange_strong(&gpu->gate->word, &word, word & ~NVS_WORD_WATCH) && atomic_load(&gpu->is_known_idle))
        nvs_wake_helper();
}

/* The swap in clear_watch pairs with the one in nvs_gate_new_generation and with tick_watch, as described there. The look itself pairs with
 * nothing: the caller is outside, and looks again when it is inside (are_open, take_offers). A stale one costs a round. */
void nvs_gate_end_watch(struct nvs_gpu *gpu)
{
    uint64_t word;
    while ((word = atomic_load(&gpu->gate->word)) & NVS_WORD_WATCH)
        clear_watch(gpu, word);
}

/* The offer that may be taken now. A stream with unfinished work gets none: one submission more would not help. let_one is read
 * after wake_count: pairs with nvs_gate_offer, see wait_for_turn. The swap in nvs_gate_take decides whether the offer is still there. */
static uint32_t offer_for(const struct nvs_gpu *gpu, const struct nvs_stream_use *use)
{
    uint32_t offer = atomic_load(&gpu->let_one);
    return offer && !nvs_drain_waits_for(use) ? offer : 0;
}

/* Four pairs:
 * - wake_count is read before the word; nvs_gate_open changes them in the other order. If the gate opens in between, the
 *   count differs and the futex does not sleep. Otherwise the wake-up could be lost and the thread sleep for a second.
 * - waiters is raised before the helper is woken; the helper clears the wake-up (nvs_wake_clear) before it reads waiters in
 *   the same step. Otherwise it could miss the waiter and not request the lock.
 * - wake_count is read before let_one; nvs_gate_offer changes them in the other order.
 * - wake_count is read before threads_drain; poll_again in helper/drains.c changes them in the other order. Otherwise the thread
 *   could sleep for a second before it drains. */
static uint32_t wait_for_turn(struct nvs_gpu *gpu, const struct nvs_stream_use *use)
{
    uint32_t offer = 0;
    uint32_t seen = atomic_load(&gpu->wake_count);
    atomic_fetch_add(&gpu->waiters, 1);
    if (!(atomic_load(&gpu->gate->word) & NVS_WORD_OPEN)) {
        nvs_wake_helper();
        if (atomic_load(&gpu->threads_drain))
            nvs_drain_in_thread(gpu, seen);
        offer = offer_for(gpu, use);
        if (!offer) {
            nvs_passage_step_out(); /* a thread that sleeps here is not in the driver */
            nvs_futex_wait(&gpu->wake_count, seen, 1000 * NVS_MS);
            nvs_passage_step_in();
        }
    }
    atomic_fetch_sub(&gpu->waiters, 1);
    return offer;
}

uint64_t nvs_gate_wait_open(struct nvs_gpu *gpu, const struct nvs_stream_use *use, uint32_t *offer)
{
    for (*offer = 0; !*offer;) {
        uint64_t word = atomic_load(&gpu->gate->word);
        if (word & NVS_WORD_WATCH)
            clear_watch(gpu, word);
        else if (word & NVS_WORD_OPEN)
            return word;
        else if (!nvs_process_ready() || nvs_passage_refusal() != CUDA_SUCCESS)
            return 0; /* in mode checkpoint the process may be lost: its threads get the driver's error */
        else
            *offer = wait_for_turn(gpu, use);
    }
    return 0;
}
