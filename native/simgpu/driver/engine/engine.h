/* The execution thread of one card in this process; shared by engine.c, kernel.c, operation.c, transfer.c and turn.c only. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "driver/driver.h"

/* The kernel that has the compute engine. Times are real and virtual: a kernel that should end at t is retired a
 * little after t, but the next one begins at t, so late wake-ups do not add up. */
struct sim_run {
    CUstream stream;             /* NULL: the compute engine is free */
    uint64_t begin_ns;
    uint64_t clock_ns;           /* up to here its work is accounted */
    uint64_t segment_end_ns;     /* what is under way ends here */
    uint64_t remaining_ns;       /* computing still to do after clock_ns */
    uint64_t touch;              /* first address of the range it touches; 0 = all of the process' managed memory */
    uint32_t chunks, chunk;      /* chunks to touch, how many were */
    uint32_t offset;             /* where in the list it starts */
    uint64_t chunk_ns;           /* computing per chunk */
    uint64_t paged_ns, waited_ns, waiting_since_ns;
    bool pure;                   /* the segment is computing only and may be cut anywhere */
    bool waiting;                /* for the turn */
};

struct sim_engine {
    unsigned card, slot;
    struct sim_card *state;
    uint64_t slice_ns;           /* real */
    pthread_t thread;
    pthread_mutex_t lock;        /* the list of streams, and all below that is not atomic */
    CUstream streams;
    _Atomic uint32_t sleeping, dirty;
    uint64_t due_ns;             /* until when the execution thread sleeps */
    struct sim_run run;
    bool wants_turn;
    uint64_t compute_free_ns;
    uint64_t on_device_free_ns;  /* copies within the card and memsets, one after the other; the link is in the shared state */
    uint64_t poll_ns;            /* when to look at memory that a stream waits for; SIM_NEVER = none does */
    uint32_t touch_offset;       /* touching by streaming: where the next kernel goes on */
    uint64_t busy_begin_ns, busy_end_ns; /* computing not yet entered in the shared state */
};

/* turn.c: the turn to compute, between processes */
bool sim_turn_try(struct sim_engine *engine, uint64_t now);
void sim_turn_pass(struct sim_engine *engine, uint64_t at); /* the work of the holder stopped at `at`: up to one slice ago */
void sim_turn_idle(struct sim_engine *engine);
static inline bool sim_turn_is_mine(const struct sim_engine *engine)
{
    return engine->state->turn_holder == engine->slot + 1 && engine->state->turn_busy;
}
static inline bool sim_turn_contended(struct sim_engine *engine)
{
    return atomic_load_explicit(&engine->state->turn_waiters, memory_order_relaxed) != 0;
}

/* The stream waits for something in memory that nobody announces: look again soon, less often the longer it takes. */
static inline void sim_poll_later(struct sim_engine *engine, CUstream stream, uint64_t now)
{
    if (stream->blocked_since_ns == 0)
        stream->blocked_since_ns = now;
    uint64_t after = (now - stream->blocked_since_ns) / 8;
    after = after < 50000 ? 50000 : after > 2000000 ? 2000000 : after;
    if (engine->poll_ns > now + after)
        engine->poll_ns = now + after;
}

/* kernel.c */
bool sim_kernel_step(struct sim_engine *engine, CUstream stream, const struct sim_op *op, uint64_t now);
uint64_t sim_kernel_deadline(struct sim_engine *engine, uint64_t now);
void sim_kernel_flush_busy(struct sim_engine *engine);

/* transfer.c */
bool sim_transfer_step(struct sim_engine *engine, CUstream stream, struct sim_op *op, uint64_t now);

/* operation.c: one attempt at the operation at the stream's head; true if it was retired */
bool sim_operation_step(struct sim_engine *engine, CUstream stream, uint64_t now);
/* The k-th operation from the head that is known already, NULL if there is none. */
const struct sim_op *sim_operation_peek(CUstream stream, uint32_t k);

#endif
