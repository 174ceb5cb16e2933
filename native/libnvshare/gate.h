/* One process's turn on one GPU: a state machine without clock, socket or thread. */
#ifndef NVS_GATE_H
#define NVS_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum nvs_turn_state {
    NVS_TURN_JOINING,  /* closed: the scheduler has not answered yet */
    NVS_TURN_NONE,     /* closed: no lock, none asked for */
    NVS_TURN_WAITING,  /* closed: asked for */
    NVS_TURN_HOLDING,  /* open: we hold lock `lock` */
    NVS_TURN_DRAINING, /* closed: giving `lock` back */
    NVS_TURN_FREE,     /* open: scheduling is off */
    NVS_TURN_UNSHARED, /* open: there is no scheduler */
    NVS_TURN_ORPHANED, /* closed: the scheduler went away while we had no lock */
};

struct nvs_turn {
    enum nvs_turn_state state;
    uint64_t lock;
    bool contended; /* somebody waits for what we hold */
    bool said_idle; /* our registration claimed nothing here: whatever we began since is not ours to keep */
};

/* What the caller has to do; bits. */
enum nvs_do {
    NVS_DO_NOTHING = 0,
    NVS_DO_OPEN = 1,           /* let threads through */
    NVS_DO_CLOSE = 2,          /* stop them */
    NVS_DO_REQUEST = 4,        /* send REQ_LOCK */
    NVS_DO_DRAIN = 8,          /* then call nvs_turn_drained */
    NVS_DO_STOP_DRAINING = 16, /* a drain under way is of no interest any more */
    NVS_DO_RELEASE = 32,       /* send LOCK_RELEASED for `released` */
};

bool nvs_turn_is_open(const struct nvs_turn *turn);

unsigned nvs_turn_want(struct nvs_turn *turn);
unsigned nvs_turn_lock_ok(struct nvs_turn *turn, uint64_t lock, bool contended);
unsigned nvs_turn_drop(struct nvs_turn *turn, uint64_t lock);
/* Give the lock back although nobody asked: the last context is gone. */
unsigned nvs_turn_yield(struct nvs_turn *turn);
/* `wanted`: a thread stands at the gate. The lock given back is in *released. */
unsigned nvs_turn_drained(struct nvs_turn *turn, bool wanted, uint64_t *released);
/* SCHED_ON. `first`: it is the answer to our registration, so what we claimed in it stays ours. */
unsigned nvs_turn_sched_on(struct nvs_turn *turn, bool first);
unsigned nvs_turn_sched_off(struct nvs_turn *turn);
/* The connection is gone. */
unsigned nvs_turn_lost(struct nvs_turn *turn);
/* Nobody answered in time: run without a scheduler. */
unsigned nvs_turn_expired(struct nvs_turn *turn);

#endif
