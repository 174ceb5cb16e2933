/* The turn on one GPU, as stories. */
#include "client/turn.h"
#include "lib_check.h"

static void a_thread_asks_waits_and_gets_the_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_JOINING};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_NOTHING); /* not before the scheduler has spoken */
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_REQUEST);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_NOTHING); /* once */
    CHECK(!nvs_turn_is_open(&turn));
    EQUAL(nvs_turn_lock_ok(&turn, 7, true), NVS_DO_OPEN);
    CHECK(nvs_turn_is_open(&turn) && turn.contended);
}

static void a_drop_drains_and_releases_the_number_it_named(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_HOLDING, .lock = 7};
    uint64_t released = 0;
    EQUAL(nvs_turn_drop(&turn, 6), NVS_DO_NOTHING); /* an older lock */
    EQUAL(nvs_turn_drop(&turn, 7), NVS_DO_CLOSE | NVS_DO_DRAIN);
    EQUAL(nvs_turn_drop(&turn, 7), NVS_DO_NOTHING);
    EQUAL(nvs_turn_drained(&turn, true, &released), NVS_DO_RELEASE);
    EQUAL(released, 7);
    EQUAL(turn.state, NVS_TURN_WAITING); /* queued without a request of its own */
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_NOTHING);
    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 8};
    EQUAL(nvs_turn_drained(&turn, false, &released), NVS_DO_RELEASE);
    EQUAL(turn.state, NVS_TURN_NONE);
    EQUAL(nvs_turn_drained(&turn, false, &released), NVS_DO_NOTHING);
}

static void a_revoked_client_that_still_drains_takes_its_new_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_DRAINING, .lock = 7};
    EQUAL(nvs_turn_lock_ok(&turn, 9, false), NVS_DO_OPEN | NVS_DO_STOP_DRAIN);
    EQUAL(turn.lock, 9);
}

static void a_client_that_lost_patience_after_registering_as_idle_must_ask_like_everybody(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_JOINING, .claimed_nothing = true};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_EXPIRED), NVS_DO_OPEN); /* the answer is late */
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_CLOSE);
    EQUAL(turn.state, NVS_TURN_NONE);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_REQUEST);
}

static void scheduling_off_opens_and_on_again_voids_the_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_WAITING};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_SCHED_OFF), NVS_DO_OPEN);
    EQUAL(nvs_turn_lock_ok(&turn, 3, false), NVS_DO_NOTHING); /* on its way when scheduling went off */
    EQUAL(nvs_turn_sched_on(&turn, false), NVS_DO_CLOSE);
    EQUAL(turn.state, NVS_TURN_NONE);
    turn = (struct nvs_turn){.state = NVS_TURN_HOLDING, .lock = 4};
    EQUAL(nvs_turn_sched_on(&turn, false), NVS_DO_CLOSE);
    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 4};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_SCHED_OFF), NVS_DO_OPEN | NVS_DO_STOP_DRAIN);
}

static void a_lost_scheduler_leaves_holders_and_bounds_waiters(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_HOLDING, .lock = 7, .contended = true};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_LOST), NVS_DO_NOTHING);
    CHECK(nvs_turn_is_open(&turn) && !turn.contended && turn.lock == 7);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_EXPIRED), NVS_DO_NOTHING);
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING); /* claimed and kept */
    EQUAL(turn.state, NVS_TURN_HOLDING);

    turn = (struct nvs_turn){.state = NVS_TURN_WAITING};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_LOST), NVS_DO_NOTHING);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_NOTHING);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_EXPIRED), NVS_DO_OPEN);
    EQUAL(turn.state, NVS_TURN_UNSHARED);
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING); /* runs on until LOCK_OK comes */
    EQUAL(nvs_turn_lock_ok(&turn, 11, false), NVS_DO_OPEN);

    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 5};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_LOST), NVS_DO_OPEN | NVS_DO_STOP_DRAIN);
    EQUAL(turn.state, NVS_TURN_HOLDING);
    turn = (struct nvs_turn){.state = NVS_TURN_FREE};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_LOST), NVS_DO_NOTHING);
    EQUAL(turn.state, NVS_TURN_UNSHARED);
}

static void the_last_context_gives_the_lock_back(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_HOLDING, .lock = 7};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_YIELD), NVS_DO_CLOSE | NVS_DO_DRAIN);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_YIELD), NVS_DO_NOTHING);
}

static void a_waiter_of_a_scheduler_that_hangs_runs_until_it_is_heard_again(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_WAITING};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_HUNG), NVS_DO_OPEN);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_WANT), NVS_DO_NOTHING); /* its request still stands */
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_HEARD), NVS_DO_CLOSE);
    EQUAL(turn.state, NVS_TURN_WAITING);
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_HUNG), NVS_DO_OPEN);
    EQUAL(nvs_turn_lock_ok(&turn, 8, true), NVS_DO_OPEN);
    CHECK(turn.state == NVS_TURN_HOLDING && turn.lock == 8 && turn.contended);
    turn = (struct nvs_turn){.state = NVS_TURN_UNATTENDED};
    EQUAL(nvs_turn_input(&turn, NVS_TURN_IN_LOST), NVS_DO_NOTHING); /* it runs on, and claims so */
    EQUAL(turn.state, NVS_TURN_UNSHARED);
}

static bool is_open(enum nvs_turn_state state) { return nvs_turn_is_open(&(struct nvs_turn){.state = state}); }

/* Of every state and input: the gate follows the state, and a drain begins and ends with DRAINING. */
static void every_transition_says_what_its_states_imply(void)
{
    for (unsigned state = 0; state < NVS_TURN_STATES; state++)
        for (unsigned input = 0; input < NVS_TURN_INPUTS; input++) {
            struct nvs_turn_step step = nvs_turn_step_of(state, input);
            unsigned next = step.is_listed ? step.next : state, todo = step.todo;
            CHECK(step.is_listed || !todo);
            CHECK(!(todo & NVS_DO_OPEN) || is_open(next));
            CHECK(!(todo & NVS_DO_CLOSE) || (is_open(state) && !is_open(next)));
            CHECK(is_open(state) || !is_open(next) || todo & NVS_DO_OPEN);
            CHECK(!is_open(state) || is_open(next) || todo & NVS_DO_CLOSE);
            CHECK((next == NVS_TURN_DRAINING && state != next) == !!(todo & NVS_DO_DRAIN));
            bool has_drained = input == NVS_TURN_IN_DRAINED || input == NVS_TURN_IN_DRAINED_AGAIN;
            CHECK((state == NVS_TURN_DRAINING && next != state && !has_drained) == !!(todo & NVS_DO_STOP_DRAIN));
            CHECK((state == NVS_TURN_DRAINING && has_drained) == !!(todo & NVS_DO_RELEASE));
            CHECK(!(todo & NVS_DO_REQUEST) || next == NVS_TURN_WAITING);
            /* Nobody waits for ever: a wait ends with a lock, with scheduling switched off, or with the loss of the scheduler. */
            CHECK(state != NVS_TURN_WAITING || input != NVS_TURN_IN_LOST || next == NVS_TURN_ORPHANED);
        }
}

int main(void)
{
    a_waiter_of_a_scheduler_that_hangs_runs_until_it_is_heard_again();
    every_transition_says_what_its_states_imply();
    a_thread_asks_waits_and_gets_the_lock();
    a_drop_drains_and_releases_the_number_it_named();
    a_revoked_client_that_still_drains_takes_its_new_lock();
    a_client_that_lost_patience_after_registering_as_idle_must_ask_like_everybody();
    scheduling_off_opens_and_on_again_voids_the_lock();
    a_lost_scheduler_leaves_holders_and_bounds_waiters();
    the_last_context_gives_the_lock_back();
    return DONE();
}
