/* Threads at the gates: their records, the slow path, opening and closing. */
#include "passage.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "session.h"
#include "streams.h"

/* What a thread has before it has a record: slots that match no stream. */
static struct nvs_thread nobody = {.slots = {[0 ... NVS_SLOTS - 1] = {.key = UINTPTR_MAX}}};

__thread struct nvs_thread *nvs_self = &nobody;
_Atomic unsigned nvs_passage_mode = NVS_FENCED;

static struct nvs_thread *_Atomic threads;
static pthread_key_t ending;
static _Atomic bool is_ending_set;

static void thread_ends(void *record)
{
    struct nvs_thread *self = record;
    nvs_self = &nobody; /* a later destructor of the program may still call CUDA: it gets a record again */
    atomic_store(&self->inside, 0);
    atomic_store(&self->is_taken, false);
}

int nvs_passage_setup(void)
{
    if (!atomic_load(&is_ending_set) && pthread_key_create(&ending, thread_ends) == 0)
        atomic_store(&is_ending_set, true);
    if (nvs_barrier_setup())
        atomic_fetch_and(&nvs_passage_mode, ~(unsigned)NVS_FENCED);
    return 0;
}

void nvs_passage_forked(void)
{
    /* The other threads are not in the child, whatever their records say. */
    atomic_store(&threads, NULL);
    nvs_self = &nobody;
    atomic_store(&nvs_passage_mode, NVS_FENCED);
}

static void clear_slots(struct nvs_thread *self)
{
    memcpy(self->slots, nobody.slots, sizeof self->slots);
}

static struct nvs_thread *reuse(void)
{
    for (struct nvs_thread *at = atomic_load(&threads); at; at = at->next) {
        bool is_free = false;
        if (atomic_compare_exchange_strong(&at->is_taken, &is_free, true))
            return at;
    }
    return NULL;
}

static struct nvs_thread *add(void)
{
    enum { BATCH = 8 };
    struct nvs_thread *batch = nvs_pages(BATCH * sizeof *batch);
    if (!batch)
        return NULL;
    atomic_store(&batch[0].is_taken, true);
    for (int i = 0; i < BATCH; i++) {
        struct nvs_thread *head = atomic_load(&threads);
        do
            batch[i].next = head;
        while (!atomic_compare_exchange_weak(&threads, &head, &batch[i]));
    }
    return batch;
}

static struct nvs_thread *record_of_thread(void)
{
    if (nvs_self != &nobody)
        return nvs_self;
    struct nvs_thread *self = reuse();
    if (!self)
        self = add();
    if (!self)
        return NULL;
    clear_slots(self);
    nvs_self = self;
    if (atomic_load(&is_ending_set))
        pthread_setspecific(ending, self);
    return self;
}

static uintptr_t key_by_context(uintptr_t stream)
{
    CUcontext context = NULL;
    if (nvs_real.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return UINTPTR_MAX - 1;
    return (uintptr_t)context + stream; /* contexts are aligned objects; the default streams are 1 and 2 */
}

static uintptr_t key_of(uintptr_t stream, unsigned mode)
{
    return mode & NVS_BY_CONTEXT && stream <= 2 ? key_by_context(stream) : stream;
}

static void fence_of_thread(void)
{
    if (atomic_load_explicit(&nvs_passage_mode, memory_order_relaxed) & NVS_FENCED)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

/* The fast path once more, for when it needs the context or a fence. */
bool nvs_enter_careful(uintptr_t stream, unsigned mode)
{
    struct nvs_thread *self = nvs_self;
    uintptr_t key = self != &nobody ? key_of(stream, mode) : stream;
    struct nvs_slot *slot = nvs_slot_for(self, key);
    if (NVS_UNLIKELY(slot->key != key || atomic_load_explicit(&self->inside, memory_order_relaxed)))
        return nvs_enter_slow(stream);
    atomic_store_explicit(&self->inside, slot->inside, memory_order_relaxed);
    fence_of_thread();
    if (NVS_LIKELY(atomic_load_explicit(&slot->gate->word, memory_order_relaxed) == slot->word && --slot->left))
        return true;
    atomic_store_explicit(&self->inside, 0, memory_order_release);
    return nvs_enter_slow(stream);
}

/* A submission where the helper thought the process might be idle. */
static void stir(struct nvs_gpu *gpu, uint64_t word)
{
    if (atomic_compare_exchange_strong(&gpu->gate->word, &word, word & ~NVS_WORD_WATCH) && atomic_load(&gpu->is_idle_told))
        nvs_session_wake();
}

static void wait_for_turn(struct nvs_gpu *gpu)
{
    uint32_t seen = atomic_load(&gpu->turnstile);
    atomic_fetch_add(&gpu->waiters, 1);
    if (!(atomic_load(&gpu->gate->word) & NVS_WORD_OPEN)) {
        nvs_session_wake();
        nvs_futex_wait(&gpu->turnstile, seen, 1000 * NVS_MS);
    }
    atomic_fetch_sub(&gpu->waiters, 1);
}

/* Waits until the gate is open and nobody watches it; returns its word. */
static uint64_t open_word(struct nvs_gpu *gpu)
{
    for (;;) {
        uint64_t word = atomic_load(&gpu->gate->word);
        if (word & NVS_WORD_WATCH)
            stir(gpu, word);
        else if (word & NVS_WORD_OPEN)
            return word;
        else if (!nvs_process_ready() || nvs_process_is_ending())
            return 0;
        else
            wait_for_turn(gpu);
    }
}

/* How many submissions the slot stands for that the stream's pacing has not counted yet. */
static uint32_t spent(const struct nvs_slot *slot, uintptr_t key)
{
    if (slot->key != key)
        return 1;
    return slot->left ? 0 : slot->granted;
}

bool nvs_enter_slow(uintptr_t handle)
{
    struct nvs_thread *self;
    if (!nvs_process_ready() || !(self = record_of_thread()) || atomic_load_explicit(&self->inside, memory_order_relaxed))
        return false;
    uintptr_t key = key_of(handle, atomic_load(&nvs_passage_mode));
    struct nvs_slot *slot = nvs_slot_for(self, key);
    struct nvs_stream_use use;
    if (!nvs_stream_use(handle, spent(slot, key), &use))
        return false; /* no context, or it only records: the driver knows what to say */
    uint32_t granted = slot->key == key && slot->left ? slot->left : use.window;
    uint64_t inside = UINT64_C(1) << use.gpu->index;
    for (;;) {
        uint64_t word = open_word(use.gpu);
        if (!word || !nvs_stream_note(&use))
            return false;
        atomic_store_explicit(&self->inside, inside, memory_order_relaxed);
        fence_of_thread();
        if (atomic_load_explicit(&use.gpu->gate->word, memory_order_relaxed) == word) {
            *slot = (struct nvs_slot){
                .key = key, .word = word, .gate = use.gpu->gate, .inside = inside, .left = granted, .granted = granted};
            return true;
        }
        atomic_store_explicit(&self->inside, 0, memory_order_release);
    }
}

static bool all_open(uint64_t mask, struct nvs_gpu **closed)
{
    for (int i = 0; i < nvs_gpu_count; i++) {
        uint64_t word = atomic_load(&nvs_gpus[i].gate->word);
        if (mask >> i & 1 && (word & (NVS_WORD_OPEN | NVS_WORD_WATCH)) != NVS_WORD_OPEN) {
            *closed = &nvs_gpus[i];
            return false;
        }
    }
    return true;
}

bool nvs_enter_many(uint64_t mask, uintptr_t handle)
{
    struct nvs_thread *self;
    struct nvs_gpu *closed;
    struct nvs_stream_use use;
    if (!nvs_process_ready() || !(self = record_of_thread()) || atomic_load(&self->inside))
        return false;
    if (!nvs_stream_use(handle, 1, &use))
        return false;
    mask |= UINT64_C(1) << use.gpu->index;
    for (;;) {
        uint64_t word = atomic_load(&use.gpu->gate->word);
        if (!nvs_stream_note(&use))
            return false;
        atomic_store(&self->inside, mask);
        fence_of_thread();
        if (all_open(mask, &closed) && atomic_load(&use.gpu->gate->word) == word)
            return true;
        atomic_store(&self->inside, 0);
        if (!all_open(mask, &closed) && !open_word(closed))
            return false;
    }
}

bool nvs_anyone_inside(const struct nvs_gpu *gpu)
{
    for (struct nvs_thread *at = atomic_load(&threads); at; at = at->next)
        if (atomic_load_explicit(&at->inside, memory_order_acquire) >> gpu->index & 1)
            return true;
    return false;
}

static void other_threads_see_it(void)
{
    if (!(atomic_load(&nvs_passage_mode) & NVS_FENCED))
        nvs_barrier();
}

void nvs_gate_open(struct nvs_gpu *gpu)
{
    atomic_fetch_and(&gpu->gate->word, ~NVS_WORD_WATCH);
    atomic_fetch_or(&gpu->gate->word, NVS_WORD_OPEN);
    atomic_fetch_add(&gpu->turnstile, 1);
    nvs_futex_wake_all(&gpu->turnstile);
}

void nvs_gate_close(struct nvs_gpu *gpu)
{
    atomic_fetch_and(&gpu->gate->word, ~(NVS_WORD_OPEN | NVS_WORD_WATCH));
    other_threads_see_it();
}

bool nvs_gate_new_generation(struct nvs_gpu *gpu)
{
    uint64_t word = atomic_load(&gpu->gate->word);
    do
        if ((word & (NVS_WORD_OPEN | NVS_WORD_WATCH)) == NVS_WORD_OPEN)
            return false;
    while (!atomic_compare_exchange_weak(&gpu->gate->word, &word, word + NVS_WORD_GENERATION));
    return true;
}

void nvs_gate_forget_streams(struct nvs_gpu *gpu) { atomic_fetch_add(&gpu->gate->word, NVS_WORD_GENERATION); }

void nvs_gate_watch(struct nvs_gpu *gpu)
{
    uint64_t word = atomic_load(&gpu->gate->word);
    while (word & NVS_WORD_OPEN && !atomic_compare_exchange_weak(&gpu->gate->word, &word, word | NVS_WORD_WATCH))
        ;
    other_threads_see_it();
}

void nvs_gate_unwatch(struct nvs_gpu *gpu) { atomic_fetch_and(&gpu->gate->word, ~NVS_WORD_WATCH); }

bool nvs_gate_is_watched(const struct nvs_gpu *gpu)
{
    return atomic_load(&gpu->gate->word) & NVS_WORD_WATCH;
}
