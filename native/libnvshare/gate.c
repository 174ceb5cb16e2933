#include "gate.h"

bool nvs_turn_is_open(const struct nvs_turn *turn)
{
    return turn->state == NVS_TURN_HOLDING || turn->state == NVS_TURN_FREE || turn->state == NVS_TURN_UNSHARED;
}

static unsigned stop_draining(const struct nvs_turn *turn)
{
    return turn->state == NVS_TURN_DRAINING ? NVS_DO_STOP_DRAINING : NVS_DO_NOTHING;
}

unsigned nvs_turn_want(struct nvs_turn *turn)
{
    if (turn->state != NVS_TURN_NONE)
        return NVS_DO_NOTHING;
    turn->state = NVS_TURN_WAITING;
    return NVS_DO_REQUEST;
}

unsigned nvs_turn_lock_ok(struct nvs_turn *turn, uint64_t lock, bool contended)
{
    /* Also while draining: our old lock was revoked and this is a new turn. */
    unsigned todo = NVS_DO_OPEN | stop_draining(turn);
    if (turn->state == NVS_TURN_FREE)
        return NVS_DO_NOTHING;
    *turn = (struct nvs_turn){.state = NVS_TURN_HOLDING, .lock = lock, .contended = contended};
    return todo;
}

static unsigned give_back(struct nvs_turn *turn)
{
    turn->state = NVS_TURN_DRAINING;
    return NVS_DO_CLOSE | NVS_DO_DRAIN;
}

unsigned nvs_turn_drop(struct nvs_turn *turn, uint64_t lock)
{
    if (turn->state != NVS_TURN_HOLDING || turn->lock != lock)
        return NVS_DO_NOTHING;
    return give_back(turn);
}

unsigned nvs_turn_yield(struct nvs_turn *turn) { return turn->state == NVS_TURN_HOLDING ? give_back(turn) : NVS_DO_NOTHING; }

unsigned nvs_turn_drained(struct nvs_turn *turn, bool wanted, uint64_t *released)
{
    if (turn->state != NVS_TURN_DRAINING)
        return NVS_DO_NOTHING;
    *released = turn->lock;
    *turn = (struct nvs_turn){.state = wanted ? NVS_TURN_WAITING : NVS_TURN_NONE};
    return NVS_DO_RELEASE;
}

unsigned nvs_turn_sched_on(struct nvs_turn *turn, bool first)
{
    unsigned todo = stop_draining(turn);
    if (first && !turn->said_idle && (turn->state == NVS_TURN_HOLDING || turn->state == NVS_TURN_UNSHARED))
        return NVS_DO_NOTHING; /* claimed: a held lock stays, LOCK_OK follows for the other */
    if (nvs_turn_is_open(turn))
        todo |= NVS_DO_CLOSE;
    *turn = (struct nvs_turn){.state = NVS_TURN_NONE};
    return todo;
}

unsigned nvs_turn_sched_off(struct nvs_turn *turn)
{
    unsigned todo = NVS_DO_OPEN | stop_draining(turn);
    *turn = (struct nvs_turn){.state = NVS_TURN_FREE};
    return todo;
}

unsigned nvs_turn_lost(struct nvs_turn *turn)
{
    turn->contended = false;
    switch (turn->state) {
    case NVS_TURN_DRAINING: /* nobody is left to give it to */
        turn->state = NVS_TURN_HOLDING;
        return NVS_DO_OPEN | NVS_DO_STOP_DRAINING;
    case NVS_TURN_NONE:
    case NVS_TURN_WAITING:
        turn->state = NVS_TURN_ORPHANED;
        return NVS_DO_NOTHING;
    case NVS_TURN_FREE:
        turn->state = NVS_TURN_UNSHARED;
        return NVS_DO_NOTHING;
    default:
        return NVS_DO_NOTHING;
    }
}

unsigned nvs_turn_expired(struct nvs_turn *turn)
{
    if (turn->state != NVS_TURN_JOINING && turn->state != NVS_TURN_ORPHANED)
        return NVS_DO_NOTHING;
    turn->state = NVS_TURN_UNSHARED;
    return NVS_DO_OPEN;
}
