/* The record of each thread that submits work: whether it is inside a gate, and the streams that it used recently. */
#ifndef NVS_THREADS_H
#define NVS_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gate/gate.h"
#include "gate/sampling.h"

/* A stream that the thread has noted and may submit to again while the gate's word is the same. */
struct nvs_cached_stream {
    uintptr_t key;
    uint64_t word; /* the gate's, when the stream was noted */
    struct nvs_gate *gate;
    uint64_t inside;        /* what to store in the record while submitting */
    uint32_t left, granted; /* submissions until the pacing is asked again, and how many it granted */
} __attribute__((aligned(64)));

enum { NVS_CACHED_STREAMS = 8 };

struct nvs_thread {
    _Atomic uint64_t inside; /* bit g: between entering and leaving GPU g's gate. Written by the thread only */
    struct nvs_sampling sampling; /* on the same cache line */
    struct nvs_cached_stream cache[NVS_CACHED_STREAMS];
    struct nvs_thread *next;
    _Atomic bool is_taken;
} __attribute__((aligned(64)));

/* The record of a thread that has none yet: matches no stream and is never written. */
extern struct nvs_thread nvs_thread_none;
/* The calling thread's record. */
extern __thread struct nvs_thread *nvs_thread_self;

static inline bool nvs_thread_has_record(void) { return nvs_thread_self != &nvs_thread_none; }

static inline struct nvs_cached_stream *nvs_thread_cached(struct nvs_thread *self, uintptr_t key)
{
    return &self->cache[(key ^ key >> 8) % NVS_CACHED_STREAMS];
}

/* The calling thread's record, made if it has none. NULL if there is no memory. */
struct nvs_thread *nvs_thread_record(void);

void nvs_threads_setup(void);
void nvs_threads_forked(void);
/* True if a thread is inside the GPU's gate. For the helper, after nvs_gate_close or nvs_gate_watch. */
bool nvs_threads_any_inside(const struct nvs_gpu *gpu);

#endif
