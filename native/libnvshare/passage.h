/* How a thread passes a GPU's gate. The fast path is inline; decision 4 explains why it is right. */
#ifndef NVS_PASSAGE_H
#define NVS_PASSAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform.h"
#include "symbols.h"

struct nvs_gpu;

/* Low bits of a gate's word; the rest is the generation of the list of noted streams. A wiped page reads as a closed
 * gate. */
#define NVS_WORD_OPEN UINT64_C(1)
#define NVS_WORD_WATCH UINT64_C(2)
#define NVS_WORD_GENERATION UINT64_C(256)

/* Alone on its cache line: every thread reads it at every launch. */
struct nvs_gate {
    _Atomic uint64_t word;
    char rest_of_line[56];
};

/* What a thread remembers of a stream it used. */
struct nvs_slot {
    uintptr_t key;
    uint64_t word; /* the gate's, when the stream was noted */
    struct nvs_gate *gate;
    uint64_t inside; /* what to store while passing */
    uint32_t left, granted; /* submissions until the next look at the pacing */
} __attribute__((aligned(64)));

enum { NVS_SLOTS = 8 };

struct nvs_thread {
    _Atomic uint64_t inside; /* bit g: between entering and leaving GPU g's gate */
    struct nvs_slot slots[NVS_SLOTS];
    struct nvs_thread *next;
    _Atomic bool is_taken;
} __attribute__((aligned(64)));

extern __thread struct nvs_thread *nvs_self;
/* What makes the fast path not enough; bits. */
enum {
    NVS_BY_CONTEXT = 1, /* default streams must be told apart by context: there are several GPUs or several contexts */
    NVS_FENCED = 2,     /* membarrier does not work here: pay a fence at each passage */
};
extern _Atomic unsigned nvs_passage_mode;

bool nvs_enter_slow(uintptr_t stream);
bool nvs_enter_careful(uintptr_t stream, unsigned mode);

static inline uintptr_t nvs_handle(CUstream stream, enum nvs_variant variant)
{
    return stream ? (uintptr_t)stream : variant == NVS_PTDS ? (uintptr_t)CU_STREAM_PER_THREAD : (uintptr_t)CU_STREAM_LEGACY;
}

static inline struct nvs_slot *nvs_slot_for(struct nvs_thread *self, uintptr_t key)
{
    return &self->slots[(key ^ key >> 8) % NVS_SLOTS];
}

/* True if the thread is now inside and must call nvs_leave after the driver's call. */
static inline bool nvs_enter(uintptr_t stream)
{
    struct nvs_thread *self = nvs_self;
    struct nvs_slot *slot = nvs_slot_for(self, stream);
    unsigned mode = atomic_load_explicit(&nvs_passage_mode, memory_order_relaxed);
    if (NVS_UNLIKELY(mode))
        return nvs_enter_careful(stream, mode);
    if (NVS_UNLIKELY(slot->key != stream || atomic_load_explicit(&self->inside, memory_order_relaxed)))
        return nvs_enter_slow(stream);
    atomic_store_explicit(&self->inside, slot->inside, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    if (NVS_LIKELY(atomic_load_explicit(&slot->gate->word, memory_order_relaxed) == slot->word && --slot->left))
        return true;
    atomic_store_explicit(&self->inside, 0, memory_order_release);
    return nvs_enter_slow(stream);
}

static inline void nvs_leave(bool entered)
{
    if (NVS_LIKELY(entered))
        atomic_store_explicit(&nvs_self->inside, 0, memory_order_release);
}

/* Enters the gates of every GPU in `mask` (work that spans GPUs); never waits at one while inside another. */
bool nvs_enter_many(uint64_t mask, uintptr_t stream);

/* The helper's side. */
int nvs_passage_setup(void);
void nvs_passage_forked(void);
bool nvs_anyone_inside(const struct nvs_gpu *gpu);
void nvs_gate_open(struct nvs_gpu *gpu);
void nvs_gate_close(struct nvs_gpu *gpu);
/* All noted streams have drained: start a new list. False if work came in meanwhile: the gate is open and no longer
 * watched. */
bool nvs_gate_new_generation(struct nvs_gpu *gpu);
void nvs_gate_watch(struct nvs_gpu *gpu);
void nvs_gate_unwatch(struct nvs_gpu *gpu);
bool nvs_gate_is_watched(const struct nvs_gpu *gpu);
/* A stream or context is gone: no thread may rely on having noted it. */
void nvs_gate_forget_streams(struct nvs_gpu *gpu);

#endif
