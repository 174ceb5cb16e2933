#include "client/turn.h"

#define ON(from, input, to, what) [NVS_TURN_##from][NVS_TURN_IN_##input] = {.next = NVS_TURN_##to, .todo = (what), .is_listed = true}
/* Every closed state but DRAINING, which still has a lock. */
#define EACH_CLOSED_WITHOUT_LOCK(input, to, what) \
    ON(JOINING, input, to, what), ON(NONE, input, to, what), ON(WAITING, input, to, what), ON(ORPHANED, input, to, what)
#define STOP_DRAIN NVS_DO_STOP_DRAIN

static const struct nvs_turn_step table[NVS_TURN_STATES][NVS_TURN_INPUTS] = {
    ON(NONE, WANT, WAITING, NVS_DO_REQUEST),

    /* Accepted also while draining: our old lock was revoked and this is a new turn. Not in FREE: the message was sent before
     * scheduling was switched off. */
    EACH_CLOSED_WITHOUT_LOCK(LOCK_OK, HOLDING, NVS_DO_OPEN),
    ON(HOLDING, LOCK_OK, HOLDING, NVS_DO_OPEN),
    ON(UNSHARED, LOCK_OK, HOLDING, NVS_DO_OPEN),
    ON(UNATTENDED, LOCK_OK, HOLDING, NVS_DO_OPEN),
    ON(DRAINING, LOCK_OK, HOLDING, NVS_DO_OPEN | STOP_DRAIN),

    ON(HOLDING, DROP, DRAINING, NVS_DO_CLOSE | NVS_DO_DRAIN),
    ON(HOLDING, YIELD, DRAINING, NVS_DO_CLOSE | NVS_DO_DRAIN),
    ON(DRAINING, DRAINED, NONE, NVS_DO_RELEASE),
    ON(DRAINING, DRAINED_AGAIN, WAITING, NVS_DO_RELEASE), /* queued without a request of its own */

    /* A claimed lock stays ours; for work claimed as unshared LOCK_OK follows. */
    EACH_CLOSED_WITHOUT_LOCK(ADMITTED, NONE, NVS_DO_NOTHING),
    ON(FREE, ADMITTED, NONE, NVS_DO_CLOSE),
    ON(UNATTENDED, ADMITTED, NONE, NVS_DO_CLOSE),
    ON(DRAINING, ADMITTED, NONE, STOP_DRAIN),

    EACH_CLOSED_WITHOUT_LOCK(SCHED_ON, NONE, NVS_DO_NOTHING),
    ON(HOLDING, SCHED_ON, NONE, NVS_DO_CLOSE),
    ON(FREE, SCHED_ON, NONE, NVS_DO_CLOSE),
    ON(UNSHARED, SCHED_ON, NONE, NVS_DO_CLOSE),
    ON(UNATTENDED, SCHED_ON, NONE, NVS_DO_CLOSE),
    ON(DRAINING, SCHED_ON, NONE, STOP_DRAIN),

    EACH_CLOSED_WITHOUT_LOCK(SCHED_OFF, FREE, NVS_DO_OPEN),
    ON(HOLDING, SCHED_OFF, FREE, NVS_DO_OPEN),
    ON(FREE, SCHED_OFF, FREE, NVS_DO_OPEN),
    ON(UNSHARED, SCHED_OFF, FREE, NVS_DO_OPEN),
    ON(UNATTENDED, SCHED_OFF, FREE, NVS_DO_OPEN),
    ON(DRAINING, SCHED_OFF, FREE, NVS_DO_OPEN | STOP_DRAIN),

    ON(HOLDING, LOST, HOLDING, NVS_DO_NOTHING), /* kept, and claimed at the next registration */
    ON(DRAINING, LOST, HOLDING, NVS_DO_OPEN | STOP_DRAIN), /* nobody is left to give it to */
    ON(NONE, LOST, ORPHANED, NVS_DO_NOTHING),
    ON(WAITING, LOST, ORPHANED, NVS_DO_NOTHING),
    ON(FREE, LOST, UNSHARED, NVS_DO_NOTHING),
    ON(UNATTENDED, LOST, UNSHARED, NVS_DO_NOTHING),

    ON(JOINING, EXPIRED, UNSHARED, NVS_DO_OPEN),
    ON(ORPHANED, EXPIRED, UNSHARED, NVS_DO_OPEN),

    ON(WAITING, HUNG, UNATTENDED, NVS_DO_OPEN),
    ON(UNATTENDED, HEARD, WAITING, NVS_DO_CLOSE),
};

struct nvs_turn_step nvs_turn_step_of(enum nvs_turn_state state, enum nvs_turn_input input) { return table[state][input]; }

static bool is_open(enum nvs_turn_state state)
{
    return state == NVS_TURN_HOLDING || state == NVS_TURN_FREE || state == NVS_TURN_UNSHARED || state == NVS_TURN_UNATTENDED;
}

bool nvs_turn_is_open(const struct nvs_turn *turn) { return is_open(turn->state); }

unsigned nvs_turn_input(struct nvs_turn *turn, enum nvs_turn_input input)
{
    const struct nvs_turn_step *step = &table[turn->state][input];
    if (!step->is_listed)
        return NVS_DO_NOTHING;
    turn->state = step->next;
    bool has_lock = turn->state == NVS_TURN_HOLDING || turn->state == NVS_TURN_DRAINING;
    if (!has_lock)
        turn->lock = 0;
    if (!has_lock || input == NVS_TURN_IN_LOST)
        turn->contended = false;
    return step->todo;
}

unsigned nvs_turn_lock_ok(struct nvs_turn *turn, uint64_t lock, bool contended)
{
    unsigned todo = nvs_turn_input(turn, NVS_TURN_IN_LOCK_OK);
    if (turn->state == NVS_TURN_HOLDING) {
        turn->lock = lock;
        turn->contended = contended;
    }
    return todo;
}

unsigned nvs_turn_drop(struct nvs_turn *turn, uint64_t lock)
{
    return turn->lock == lock ? nvs_turn_input(turn, NVS_TURN_IN_DROP) : NVS_DO_NOTHING;
}

unsigned nvs_turn_drained(struct nvs_turn *turn, bool again, uint64_t *released)
{
    *released = turn->lock;
    return nvs_turn_input(turn, again ? NVS_TURN_IN_DRAINED_AGAIN : NVS_TURN_IN_DRAINED);
}

unsigned nvs_turn_sched_on(struct nvs_turn *turn, bool first)
{
    return nvs_turn_input(turn, first && !turn->claimed_nothing ? NVS_TURN_IN_ADMITTED : NVS_TURN_IN_SCHED_ON);
}
