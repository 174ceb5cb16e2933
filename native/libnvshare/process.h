/* What this process is: its GPUs, and whether the library is at work in it. */
#ifndef NVS_PROCESS_H
#define NVS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "account.h"
#include "gate.h"
#include "passage.h"
#include "platform.h"
#include "wire.h"

/* One visible GPU; its place in nvs_gpus is its CUDA ordinal and its number on the wire. */
struct nvs_gpu {
    struct nvs_gate *gate;
    int index;
    bool can_be_managed; /* managed memory pages in and out on this device */
    uint8_t uuid[16];
    uint8_t kind;
    char label[48]; /* the UUID in print */
    uint64_t bytes;

    /* Threads at the gate sleep on `turnstile`; it moves when the gate opens. */
    _Atomic uint32_t turnstile;
    _Atomic uint32_t waiters;
    _Atomic bool is_idle_told; /* the scheduler believes that all our work has finished */
    _Atomic uint32_t contexts;
    uint32_t noted_streams; /* how many are to be drained; under the streams' lock */

    struct nvs_lock account_lock;
    struct nvs_account account;
    _Atomic bool memory_changed, is_urgent;
    uint64_t told_used; /* under account_lock: what the scheduler was last told */

    /* The rest belongs to the helper thread. */
    struct nvs_turn turn;
    bool is_draining, is_past_threads, is_watch_armed, had_contexts;
    uint64_t told_unswappable;
    uint32_t told_contexts;
    int64_t drain_began_ns, next_look_ns, memory_due_ns;
    int64_t asked_ns; /* when REQ_LOCK was sent that nobody has answered yet; 0: none */
    uint32_t looks;
};

extern struct nvs_gpu nvs_gpus[NVS_MAX_GPUS];
extern int nvs_gpu_count;

/* True if the driver is up and the library stands in front of it; sets everything up at the first call that finds the
 * driver initialised. */
bool nvs_process_ready(void);
/* True if that has happened already. */
bool nvs_process_is_set_up(void);
/* The GPU of the current context, or NULL. */
struct nvs_gpu *nvs_current_gpu(void);
/* After a fork, in the child: forget the parent. */
void nvs_process_forked(void);
/* True once the program has begun to exit. */
bool nvs_process_is_ending(void);

#endif
