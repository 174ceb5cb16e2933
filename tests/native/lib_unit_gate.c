/* The turn on one GPU, as stories. */
#include "gate.h"
#include "lib_check.h"

static void a_thread_asks_waits_and_gets_the_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_JOINING};
    EQUAL(nvs_turn_want(&turn), NVS_DO_NOTHING); /* not before the scheduler has spoken */
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING);
    EQUAL(nvs_turn_want(&turn), NVS_DO_REQUEST);
    EQUAL(nvs_turn_want(&turn), NVS_DO_NOTHING); /* once */
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
    EQUAL(nvs_turn_want(&turn), NVS_DO_NOTHING);
    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 8};
    EQUAL(nvs_turn_drained(&turn, false, &released), NVS_DO_RELEASE);
    EQUAL(turn.state, NVS_TURN_NONE);
    EQUAL(nvs_turn_drained(&turn, false, &released), NVS_DO_NOTHING);
}

static void a_revoked_client_that_still_drains_takes_its_new_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_DRAINING, .lock = 7};
    EQUAL(nvs_turn_lock_ok(&turn, 9, false), NVS_DO_OPEN | NVS_DO_STOP_DRAINING);
    EQUAL(turn.lock, 9);
}

static void who_lost_patience_after_registering_as_idle_must_ask_like_everybody(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_JOINING, .said_idle = true};
    EQUAL(nvs_turn_expired(&turn), NVS_DO_OPEN); /* the answer is late */
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_CLOSE);
    EQUAL(turn.state, NVS_TURN_NONE);
    EQUAL(nvs_turn_want(&turn), NVS_DO_REQUEST);
}

static void scheduling_off_opens_and_on_again_voids_the_lock(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_WAITING};
    EQUAL(nvs_turn_sched_off(&turn), NVS_DO_OPEN);
    EQUAL(nvs_turn_lock_ok(&turn, 3, false), NVS_DO_NOTHING); /* on its way when scheduling went off */
    EQUAL(nvs_turn_sched_on(&turn, false), NVS_DO_CLOSE);
    EQUAL(turn.state, NVS_TURN_NONE);
    turn = (struct nvs_turn){.state = NVS_TURN_HOLDING, .lock = 4};
    EQUAL(nvs_turn_sched_on(&turn, false), NVS_DO_CLOSE);
    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 4};
    EQUAL(nvs_turn_sched_off(&turn), NVS_DO_OPEN | NVS_DO_STOP_DRAINING);
}

static void a_lost_scheduler_leaves_holders_and_bounds_waiters(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_HOLDING, .lock = 7, .contended = true};
    EQUAL(nvs_turn_lost(&turn), NVS_DO_NOTHING);
    CHECK(nvs_turn_is_open(&turn) && !turn.contended && turn.lock == 7);
    EQUAL(nvs_turn_expired(&turn), NVS_DO_NOTHING);
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING); /* claimed and kept */
    EQUAL(turn.state, NVS_TURN_HOLDING);

    turn = (struct nvs_turn){.state = NVS_TURN_WAITING};
    EQUAL(nvs_turn_lost(&turn), NVS_DO_NOTHING);
    EQUAL(nvs_turn_want(&turn), NVS_DO_NOTHING);
    EQUAL(nvs_turn_expired(&turn), NVS_DO_OPEN);
    EQUAL(turn.state, NVS_TURN_UNSHARED);
    EQUAL(nvs_turn_sched_on(&turn, true), NVS_DO_NOTHING); /* runs on until LOCK_OK comes */
    EQUAL(nvs_turn_lock_ok(&turn, 11, false), NVS_DO_OPEN);

    turn = (struct nvs_turn){.state = NVS_TURN_DRAINING, .lock = 5};
    EQUAL(nvs_turn_lost(&turn), NVS_DO_OPEN | NVS_DO_STOP_DRAINING);
    EQUAL(turn.state, NVS_TURN_HOLDING);
    turn = (struct nvs_turn){.state = NVS_TURN_FREE};
    EQUAL(nvs_turn_lost(&turn), NVS_DO_NOTHING);
    EQUAL(turn.state, NVS_TURN_UNSHARED);
}

static void the_last_context_gives_the_lock_back(void)
{
    struct nvs_turn turn = {.state = NVS_TURN_HOLDING, .lock = 7};
    EQUAL(nvs_turn_yield(&turn), NVS_DO_CLOSE | NVS_DO_DRAIN);
    EQUAL(nvs_turn_yield(&turn), NVS_DO_NOTHING);
}

int main(void)
{
    a_thread_asks_waits_and_gets_the_lock();
    a_drop_drains_and_releases_the_number_it_named();
    a_revoked_client_that_still_drains_takes_its_new_lock();
    who_lost_patience_after_registering_as_idle_must_ask_like_everybody();
    scheduling_off_opens_and_on_again_voids_the_lock();
    a_lost_scheduler_leaves_holders_and_bounds_waiters();
    the_last_context_gives_the_lock_back();
    return DONE();
}
