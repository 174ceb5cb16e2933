/* The GPUs that this process sees, and what each part of the library keeps about one. */
#ifndef NVS_GPU_H
#define NVS_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/platform.h"
#include "client/account.h"
#include "cuda_types.h"
#include "gate/gate.h"
#include "wire.h"

/* One visible GPU. Its index in nvs_gpus is its CUDA ordinal and its number in messages. */
struct nvs_gpu {
    struct nvs_gate *gate;
    int index;
    bool can_be_managed; /* managed memory is paged in and out on this device */
    uint8_t uuid[16];
    uint8_t kind;
    char label[48]; /* the UUID in print */
    uint64_t bytes;

    /* Shared by the helper and the program's threads. gate/gate.c says what the first five pair with. */
    _Atomic uint32_t wake_count; /* raised to wake the threads at the gate: it opens, there is an offer, or they are to drain; a futex */
    _Atomic bool threads_drain;  /* the program exits: threads that wait at the gate drain the GPU */
    _Atomic uint32_t let_one;    /* not 0: a thread may pass the closed gate once and makes it 0; each offer has its own number */
    _Atomic uint32_t waiters;    /* threads that wait at the gate; the helper requests the lock for them */
    _Atomic bool is_known_idle;  /* all our work has finished and the gate is watched: a thread that submits wakes the helper */
    _Atomic uint32_t contexts;   /* how many are alive; written under nvs_streams_lock */
    uint32_t noted_streams;      /* how many are to be drained; under nvs_streams_lock */
    uint32_t unfinished;         /* what the last step of a drain waited for; under nvs_streams_lock */
    _Atomic uint32_t slowness;   /* how many times longer than usual submissions take (gate/slowness.h); the helper clears it */

    struct nvs_lock account_lock;
    struct nvs_account account;
    uint64_t small_bytes;        /* small allocations that stayed native; under account_lock */
    _Atomic bool memory_changed; /* since the last report; what it pairs with: nvs_memory_changed */
    _Atomic bool is_urgent;      /* by so much that the report must not wait */

    /* The rest belongs to the helper thread. Its flags must not share a word with fields that threads write, because the compiler may read
     * a whole word to test several flags. So the times come first. */
    int64_t drain_began_ns, asked_ns;
    int64_t next_idle_poll_ns; /* when the helper next finds out whether the process is idle */
    bool is_draining;     /* the lock is to be released when all work has finished */
    bool is_helping;      /* a drain of another GPU may wait for work that has not passed this closed gate (helper/drains.c) */
    bool is_asked;        /* the scheduler wants one submission let through (LET_ONE) */
    bool is_drained;      /* all work has finished; the lock is kept until the other drains have ended */
    bool is_past_threads; /* no thread was inside the gate: events are recorded and asked about from here on */
    bool was_closed;      /* the gate, when events were first recorded; else it was watched */
    bool is_watch_armed;  /* the watch bit has been set since the gate opened; a thread may have cleared it again */
    uint32_t polls;       /* of the present drain, so far */
    uint32_t seen_unfinished; /* `unfinished` after the helper's own last step: threads that exit take steps too */
    uint32_t offer;       /* what let_one was set to, until it is found taken or withdrawn */
    int64_t let_ns;       /* when it was last found taken; 0 once that work has finished */
};

extern struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
extern int nvs_gpu_count;

/* Asks the driver about the GPU with this ordinal and fills nvs_gpus[index]. */
void nvs_gpu_setup(int index, struct nvs_gate *gate);
/* The GPU of the current context, or NULL. */
struct nvs_gpu *nvs_gpu_current(void);
/* The same, and the context itself. */
struct nvs_gpu *nvs_gpu_current_with_context(CUcontext *context);

#endif
