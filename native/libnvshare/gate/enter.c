/* Entering a gate off the fast path. */
#include "gate/enter.h"

#include "base/cancellation.h"
#include "gate/streams.h"
#include "gpu.h"
#include "lookup/symbols.h"
#include "process.h"

struct nvs_enter_mode nvs_enter_mode = {.bits = NVS_ENTER_FENCED};

/* Under the set-up lock, before `state` is READY: pairs with nvs_process_ready. So each thread that is not still in its first call sees the
 * mode as it is left here; one that misses it executes a fence that it does not need. */
void nvs_enter_setup(void)
{
    nvs_threads_setup();
    if (nvs_barrier_setup())
        atomic_fetch_and(&nvs_enter_mode.bits, ~(unsigned)NVS_ENTER_FENCED);
}

void nvs_enter_forked(void)
{
    nvs_threads_forked();
    atomic_store(&nvs_enter_mode.bits, NVS_ENTER_FENCED); /* the child must register for membarrier again */
}

void nvs_enter_by_context(void) { atomic_fetch_or(&nvs_enter_mode.bits, NVS_ENTER_BY_CONTEXT); }

static uintptr_t key_by_context(uintptr_t stream)
{
    CUcontext context = NULL;
    if (nvs_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return UINTPTR_MAX - 1;
    return (uintptr_t)context + stream; /* contexts are aligned objects; the default streams are 1 and 2 */
}

static uintptr_t key_of(uintptr_t stream, unsigned mode)
{
    return mode & NVS_ENTER_BY_CONTEXT && stream <= 2 ? key_by_context(stream) : stream;
}

/* Between the store of `inside` and the load of the word. Pairs with barrier_all_threads in gate/gate.c, which takes the same
 * branch; see nvs_enter_fast for what breaks without it. */
static void fence_after_store(unsigned mode)
{
    if (mode & NVS_ENTER_FENCED)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

/* The fast path for a special mode. The orders are those of nvs_enter_fast: `inside` is stored before the word is loaded, with the fence
 * between them (pairs with barrier_all_threads in gate/gate.c), and cleared by a release (pairs with nvs_threads_any_inside). */
static bool enter_with_mode(uintptr_t stream, unsigned mode)
{
    struct nvs_thread *self = nvs_thread_self;
    uintptr_t key = nvs_thread_has_record() ? key_of(stream, mode) : stream;
    struct nvs_cached_stream *cached = nvs_thread_cached(self, key);
    if (NVS_UNLIKELY(cached->key != key || cached->left <= 1 || atomic_load_explicit(&self->inside, memory_order_relaxed)))
        return false;
    atomic_store_explicit(&self->inside, cached->inside, memory_order_relaxed);
    fence_after_store(mode);
    if (NVS_LIKELY(atomic_load_explicit(&cached->gate->word, memory_order_relaxed) == cached->word)) {
        cached->left--;
        return true;
    }
    atomic_store_explicit(&self->inside, 0, memory_order_release);
    return false;
}

/* The number of submissions of this entry that the stream's pacing has not counted yet. */
static uint32_t spent(const struct nvs_cached_stream *cached, uintptr_t key)
{
    return cached->key == key ? cached->granted - cached->left + 1 : 1; /* the first of them entered slowly */
}

/* Takes an offer at each closed gate of the mask; false if one has none. An offer that was taken in vain is made again.
 *
 * let_one is read only to know the number. Whether the offer is still there is decided by the swap in nvs_gate_take, which pairs with
 * nvs_gate_withdraw. Each offer has its own number: a thread that comes late does not take the next one by mistake. */
static bool take_offers(uint64_t mask)
{
    for (int i = 0; i < nvs_gpu_count; i++) {
        struct nvs_gpu *gpu = &nvs_gpus[i];
        uint32_t offer = atomic_load(&gpu->let_one);
        if (mask >> i & 1 && !nvs_gate_is_open(gpu) && !(offer && nvs_gate_take(gpu, offer)))
            return false;
    }
    return true;
}

/* "Letting one through" in gate/gate.h. `inside` is stored before the offer is taken: pairs with the helper, which looks who is inside
 * after it found the offer taken. The stream is noted after that: the helper does not clear the list before this thread has
 * left. The fence is for the gates of the mask that are open: take_offers reads their words, as nvs_enter_several does. It is executed in
 * every mode, because the words are not compared with older ones: see change_to_fences in gate/gate.c. */
static bool enter_closed(struct nvs_thread *self, uint64_t mask, const struct nvs_stream_use *use)
{
    atomic_store_explicit(&self->inside, mask, memory_order_relaxed);
    fence_after_store(NVS_ENTER_FENCED);
    if (take_offers(mask) && nvs_stream_note(use))
        return true;
    /* Nothing was submitted. Release for the same reason as in nvs_enter_fast. */
    atomic_store_explicit(&self->inside, 0, memory_order_release);
    return false;
}

/* A function of its own, so that nvs_enter saves no registers for it. `inside` is read relaxed: only this thread writes it.
 *
 * The stream is noted before `inside` is stored and the word compared. If the helper clears the list in between, it has changed
 * the word first (nvs_gate_new_generation), so the comparison fails and the stream is noted again.
 *
 * For the key the mode is read once: nvs_enter_mode_is_special in gate/enter.h says what it pairs with and why a stale value is harmless.
 * For the fence it is read after the word: pairs with change_to_fences in gate/gate.c. In the other order a thread could wait for the
 * gate, enter under the new word without a fence, and pass a gate that the helper has closed and found empty. */
static __attribute__((noinline)) bool enter_slow(uintptr_t handle)
{
    NVS_NO_CANCELLATION;
    struct nvs_thread *self;
    if (!nvs_process_ready() || !(self = nvs_thread_record()) || atomic_load_explicit(&self->inside, memory_order_relaxed))
        return false;
    unsigned mode = atomic_load(&nvs_enter_mode.bits);
    uintptr_t key = key_of(handle, mode);
    struct nvs_cached_stream *cached = nvs_thread_cached(self, key);
    struct nvs_stream_use use;
    if (!nvs_stream_use(handle, spent(cached, key), &use))
        return false; /* see nvs_stream_use: the call passes no gate, and the driver answers it */
    uint32_t granted = use.window;
    uint64_t inside = UINT64_C(1) << use.gpu->index;
    for (;;) {
        uint32_t offer;
        uint64_t word = nvs_gate_wait_open(use.gpu, &use, &offer);
        if (offer) {
            cached->key = UINTPTR_MAX; /* the next submission waits again */
            if (enter_closed(self, inside, &use))
                return true;
            continue;
        }
        if (!word || !nvs_stream_note(&use))
            return false;
        atomic_store_explicit(&self->inside, inside, memory_order_relaxed);
        fence_after_store(atomic_load_explicit(&nvs_enter_mode.bits, memory_order_relaxed));
        if (atomic_load_explicit(&use.gpu->gate->word, memory_order_relaxed) == word) {
            *cached = (struct nvs_cached_stream){
                .key = key, .word = word, .gate = use.gpu->gate, .inside = inside, .left = granted, .granted = granted};
            return true;
        }
        atomic_store_explicit(&self->inside, 0, memory_order_release); /* as in nvs_enter_fast: pairs with nvs_threads_any_inside */
    }
}

/* Relaxed: as nvs_enter_mode_is_special in gate/enter.h. */
bool nvs_enter(uintptr_t stream)
{
    unsigned mode = atomic_load_explicit(&nvs_enter_mode.bits, memory_order_relaxed);
    return (mode ? enter_with_mode(stream, mode) : nvs_enter_fast(nvs_thread_self, stream)) || enter_slow(stream);
}

static bool are_open(uint64_t mask)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (mask >> i & 1 && !nvs_gate_is_open(&nvs_gpus[i]))
            return false;
    return true;
}

static struct nvs_gpu *first_closed(uint64_t mask)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (mask >> i & 1 && nvs_gate_is_closed(&nvs_gpus[i]))
            return &nvs_gpus[i];
    return NULL;
}

static void end_watches(uint64_t mask)
{
    for (int i = 0; i < nvs_gpu_count; i++)
        if (mask >> i & 1)
            nvs_gate_end_watch(&nvs_gpus[i]);
}

/* As enter_slow, with several gates. Only the stream of `handle` is noted here, so only the word of its GPU has to be the same; the
 * other gates have to be open. The caller notes streams on other GPUs when it is inside.
 *
 * The word is read before the stream is noted: pairs with nvs_gate_new_generation, as in enter_slow. In the other order the helper could
 * clear the list in between, the comparison would find the new word twice, and the work would not be drained. The fence pairs with
 * barrier_all_threads for all gates of the mask; each mode needs the one that fence_after_store chooses.
 *
 * The thread waits outside all gates. A watch is ended only when no gate is closed or there is an offer: while the thread waits at one
 * gate, the process does not use the GPU of the other. With an offer it must be ended: otherwise take_offers would take the offer at the
 * closed gate and find the other one not open, each time. */
bool nvs_enter_several(uint64_t mask, uintptr_t handle)
{
    NVS_NO_CANCELLATION;
    struct nvs_thread *self;
    struct nvs_stream_use use;
    if (!nvs_process_ready() || !(self = nvs_thread_record()) || atomic_load_explicit(&self->inside, memory_order_relaxed))
        return false;
    if (!nvs_stream_use(handle, 1, &use))
        return false;
    mask |= UINT64_C(1) << use.gpu->index;
    for (;;) {
        uint64_t word = atomic_load(&use.gpu->gate->word);
        if (!nvs_stream_note(&use))
            return false;
        atomic_store_explicit(&self->inside, mask, memory_order_relaxed);
        fence_after_store(atomic_load_explicit(&nvs_enter_mode.bits, memory_order_relaxed));
        if (are_open(mask) && atomic_load_explicit(&use.gpu->gate->word, memory_order_relaxed) == word)
            return true;
        atomic_store_explicit(&self->inside, 0, memory_order_release); /* as in nvs_enter_fast */
        struct nvs_gpu *closed = first_closed(mask);
        uint32_t offer = 0;
        if (closed && !nvs_gate_wait_open(closed, &use, &offer) && !offer)
            return false;
        if (!closed || offer)
            end_watches(mask);
        if (offer && enter_closed(self, mask, &use))
            return true;
    }
}
