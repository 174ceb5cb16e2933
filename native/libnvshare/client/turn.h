/* One process's turn on one GPU: a state machine without clock, socket or thread. All transitions are in one table, in
 * turn.c. */
#ifndef NVS_TURN_H
#define NVS_TURN_H

#include <stdbool.h>
#include <stdint.h>

enum nvs_turn_state {
    NVS_TURN_JOINING,    /* closed: the scheduler has not answered yet */
    NVS_TURN_NONE,       /* closed: no lock, none requested */
    NVS_TURN_WAITING,    /* closed: requested */
    NVS_TURN_HOLDING,    /* open: we hold lock `lock` */
    NVS_TURN_DRAINING,   /* closed: releasing `lock` */
    NVS_TURN_FREE,       /* open: scheduling is off */
    NVS_TURN_UNSHARED,   /* open: there is no scheduler */
    NVS_TURN_ORPHANED,   /* closed: the scheduler went away while we had no lock */
    NVS_TURN_UNATTENDED, /* open: requested, but the scheduler hangs; the request stays valid */
    NVS_TURN_STATES,
};

enum nvs_turn_input {
    NVS_TURN_IN_WANT,          /* a thread waits at the gate */
    NVS_TURN_IN_LOCK_OK,       /* the scheduler gives us a lock */
    NVS_TURN_IN_DROP,          /* the scheduler wants back the lock that we hold */
    NVS_TURN_IN_YIELD,         /* we release the lock unasked: no context is left, or mode checkpoint gives it back (nvs_client_yield) */
    NVS_TURN_IN_DRAINED,       /* all work has finished, no thread waits at the gate */
    NVS_TURN_IN_DRAINED_AGAIN, /* all work has finished, a thread waits at the gate */
    NVS_TURN_IN_ADMITTED,      /* SCHED_ON answers a registration that claimed this turn: the claim is accepted */
    NVS_TURN_IN_SCHED_ON,      /* any other SCHED_ON: all locks and places in the queue are void */
    NVS_TURN_IN_SCHED_OFF,     /* all clients may run */
    NVS_TURN_IN_LOST,          /* the connection is gone */
    NVS_TURN_IN_EXPIRED,       /* nobody answered in time: run without a scheduler */
    NVS_TURN_IN_HUNG,          /* the scheduler is connected but does not answer */
    NVS_TURN_IN_HEARD,         /* it answers again */
    NVS_TURN_INPUTS,
};

/* What the caller has to do; bits. */
enum nvs_turn_do {
    NVS_DO_NOTHING = 0,
    NVS_DO_OPEN = 1,           /* let threads pass */
    NVS_DO_CLOSE = 2,          /* stop them */
    NVS_DO_REQUEST = 4,        /* send REQ_LOCK */
    NVS_DO_DRAIN = 8,          /* then call nvs_turn_drained */
    NVS_DO_STOP_DRAIN = 16,    /* a drain in progress is no longer needed */
    NVS_DO_RELEASE = 32,       /* send LOCK_RELEASED */
};

struct nvs_turn {
    enum nvs_turn_state state;
    uint64_t lock;
    bool contended; /* we report when we are idle, usually because another client waits for the GPU */
    bool claimed_nothing; /* our registration claimed nothing here: when it is answered, what this turn became meanwhile is void */
};

struct nvs_turn_step {
    uint8_t next, todo;
    bool is_listed; /* what the table does not list changes nothing */
};

/* The table itself: what an input does in a state. */
struct nvs_turn_step nvs_turn_step_of(enum nvs_turn_state state, enum nvs_turn_input input);

bool nvs_turn_is_open(const struct nvs_turn *turn);

/* Inputs that carry nothing: WANT, YIELD, SCHED_OFF, LOST, EXPIRED, HUNG, HEARD. */
unsigned nvs_turn_input(struct nvs_turn *turn, enum nvs_turn_input input);
unsigned nvs_turn_lock_ok(struct nvs_turn *turn, uint64_t lock, bool contended);
unsigned nvs_turn_drop(struct nvs_turn *turn, uint64_t lock);
/* `again`: a thread waits at the gate. The released lock is in *released. */
unsigned nvs_turn_drained(struct nvs_turn *turn, bool again, uint64_t *released);
/* SCHED_ON. `first`: it is the answer to our registration, so what we claimed in it stays ours. */
unsigned nvs_turn_sched_on(struct nvs_turn *turn, bool first);

#endif
