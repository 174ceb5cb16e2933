/* Whose turn it is to compute. Processes without a common server take turns as the hardware's time slices do: the holder
 * passes the turn on at the end of its slice if another process waits, in the order of tickets. An idle holder keeps the
 * turn until another process wants it, so a process that is alone has no cost.
 *
 * The card computes without a processor. So a turn passes on at the time at which the holder's work stopped on the card, not when its
 * thread notices, and the next holder computes from then on. A holder whose thread is late by more than a slice goes on until now
 * (kernel.c): otherwise a machine that wakes threads later than slices end would let the card fall behind the clock without end.
 *
 * A holder may die or be stopped. Waiting processes look again every LOOK_NS: a dead holder is removed,
 * one that has not moved for STUCK_NS is passed over, as a real card preempts.
 *
 * Others are woken after the card's lock is released: a process that is stopped while it holds the lock stops the card, and a process
 * that is woken may be the one that stops it. */
#include "driver/engine/engine.h"

#define LOOK_NS 20000000ull
#define STUCK_NS 1000000000ull

static void take(struct sim_engine *engine, uint64_t now)
{
    struct sim_card *card = engine->state;
    struct sim_slot *own = &card->slots[engine->slot];
    if (own->waiting) {
        own->waiting = 0;
        atomic_fetch_sub(&card->turn_waiters, 1);
    }
    if (card->turn_holder != engine->slot + 1 || now - card->turn_since_ns > engine->slice_ns)
        card->turn_since_ns = now;
    card->turn_holder = engine->slot + 1;
    card->turn_busy = 1;
}

static bool holder_is_gone(struct sim_engine *engine, uint64_t now)
{
    struct sim_card *card = engine->state;
    uint32_t holder = card->turn_holder;
    if (holder == 0 || !card->turn_busy || holder == engine->slot + 1)
        return true;
    uint64_t held_ns = now > card->turn_since_ns ? now - card->turn_since_ns : 0;
    if (held_ns < LOOK_NS)
        return false;
    if (!sim_slot_alive(sim.view.card_fds[engine->card], holder - 1)) {
        sim_slot_clear(card, holder - 1);
        return true;
    }
    return held_ns > STUCK_NS;
}

bool sim_turn_try(struct sim_engine *engine, uint64_t now)
{
    struct sim_card *card = engine->state;
    struct sim_slot *own = &card->slots[engine->slot];
    if (sim_turn_is_mine(engine))
        return true;
    struct sim_slot *holder = NULL;
    sim_card_lock(card);
    bool granted = card->turn_holder == engine->slot + 1 || holder_is_gone(engine, now);
    if (granted) {
        take(engine, now);
    } else if (!own->waiting) {
        own->waiting = 1;
        own->ticket = ++card->turn_tickets;
        if (atomic_fetch_add(&card->turn_waiters, 1) == 0)
            holder = &card->slots[card->turn_holder - 1]; /* it may be sleeping beyond the end of its slice */
    }
    sim_card_unlock(card);
    if (holder)
        sim_slot_wake(holder);
    return granted;
}

/* The holder's work stopped at `at`. The lock is held. Returns what is to be woken, or NULL. */
static struct sim_slot *hand_over(struct sim_card *card, uint64_t at)
{
    struct sim_slot *next = NULL;
    for (uint32_t i = 0; i < card->slots_high; i++) {
        struct sim_slot *slot = &card->slots[i];
        if (slot->waiting && (next == NULL || slot->ticket < next->ticket))
            next = slot;
    }
    if (next == NULL)
        return NULL;
    next->waiting = 0;
    atomic_fetch_sub(&card->turn_waiters, 1);
    card->turn_holder = (uint32_t)(next - card->slots) + 1;
    card->turn_busy = 1;
    card->turn_since_ns = card->turn_free_ns = at;
    return next;
}

void sim_turn_pass(struct sim_engine *engine, uint64_t at)
{
    struct sim_slot *next = NULL;
    sim_card_lock(engine->state);
    if (engine->state->turn_holder == engine->slot + 1)
        next = hand_over(engine->state, at);
    sim_card_unlock(engine->state);
    if (next)
        sim_slot_wake(next);
}

void sim_turn_idle(struct sim_engine *engine)
{
    struct sim_card *card = engine->state;
    struct sim_slot *own = &card->slots[engine->slot], *next = NULL;
    if (!sim_turn_is_mine(engine) && !own->waiting)
        return;
    sim_card_lock(card);
    if (own->waiting) {
        own->waiting = 0;
        atomic_fetch_sub(&card->turn_waiters, 1);
    }
    if (card->turn_holder == engine->slot + 1) {
        card->turn_busy = 0;
        if (card->turn_free_ns < engine->compute_free_ns)
            card->turn_free_ns = engine->compute_free_ns;
        next = hand_over(card, card->turn_free_ns > card->turn_since_ns ? card->turn_free_ns : card->turn_since_ns);
    }
    sim_card_unlock(card);
    if (next)
        sim_slot_wake(next);
}
