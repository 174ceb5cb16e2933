/* How a thread enters a GPU's gate (gate/leave.h: leaves it): the fast path of every launch and copy. Theory of operation: gate/gate.h. */
#ifndef NVS_ENTER_H
#define NVS_ENTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "gate/leave.h"
#include "gate/threads.h"

/* What makes the fast path insufficient; bits. */
enum {
    NVS_ENTER_BY_CONTEXT = 1, /* default streams must be told apart by context: there are several GPUs or contexts */
    NVS_ENTER_FENCED = 2,     /* membarrier does not work here: each thread executes a fence */
};
/* Written by nvs_enter_setup, nvs_enter_by_context and nvs_enter_forked. Alone on its cache line: every thread reads it at every
 * launch, and a store to a neighbour would take the line away from the other threads. */
struct nvs_enter_mode {
    _Atomic unsigned bits;
    char rest_of_line[60];
} __attribute__((aligned(64)));
extern struct nvs_enter_mode nvs_enter_mode;

/* True if submissions must not take the fast path.
 *
 * Relaxed: FENCED is cleared before the helper exists (nvs_enter_setup); a stale FENCED costs a fence, nothing more. If membarrier stops
 * working it is set again, and a thread that still misses it finds the word changed (change_to_fences in gate/gate.c). BY_CONTEXT is set
 * before the second context's handle is returned to the program (nvs_enter_by_context), and a thread can use that context only after
 * it has learned the handle. Without the bit, a default stream of the second context would match the entry of the first, pass the
 * wrong gate and not be drained. */
static inline bool nvs_enter_mode_is_special(void)
{
    return atomic_load_explicit(&nvs_enter_mode.bits, memory_order_relaxed) != 0;
}

/* The fast path, with the thread's own record, unless the mode is special. True: the thread is inside and must call nvs_leave after
 * the driver's call. False: nothing has changed; call nvs_enter. */
static inline bool nvs_enter_fast(struct nvs_thread *self, uintptr_t stream)
{
    struct nvs_cached_stream *cached = nvs_thread_cached(self, stream);
    /* Relaxed: only this thread writes its record. */
    if (NVS_UNLIKELY(cached->key != stream || cached->left <= 1 || atomic_load_explicit(&self->inside, memory_order_relaxed)))
        return false;
    /* Store, then load: the thread's half of the store-buffering pattern. Pairs with barrier_all_threads in gate/gate.c. The
     * signal fence keeps the compiler from swapping the two; the processor is kept from it by membarrier in the helper.
     * Without it the thread could pass a gate that the helper has closed and found empty. */
    atomic_store_explicit(&self->inside, cached->inside, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (NVS_LIKELY(atomic_load_explicit(&cached->gate->word, memory_order_relaxed) == cached->word)) {
        cached->left--;
        return true;
    }
    /* Nothing was submitted, but the helper may read this 0 and not that of an earlier nvs_leave: release, as there. */
    atomic_store_explicit(&self->inside, 0, memory_order_release);
    return false;
}

/* Any path: it may wait for the gate. True if the thread is now inside and must call nvs_leave after the driver's call. False if the
 * call passes no gate: the library is not active, the thread is inside already (the driver called back), there is no memory for its
 * record, or one of the reasons of nvs_stream_use. */
bool nvs_enter(uintptr_t stream);

/* Enters the gates of every GPU in `mask` (work that spans GPUs); never waits at one while inside another. */
bool nvs_enter_several(uint64_t mask, uintptr_t stream);

/* Chooses between membarrier and fences. Before the helper thread starts. */
void nvs_enter_setup(void);
void nvs_enter_forked(void);
/* From now on default streams are told apart by context. */
void nvs_enter_by_context(void);

#endif
