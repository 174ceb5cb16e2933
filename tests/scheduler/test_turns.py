"""Turns as clients see them, over the socket: the user's own scenarios at the level of messages."""

import pytest

from nvshare.wire import messages as wire
from support.client import GIB, entry, gpu_name
from support.daemon import Daemon
from support.fixtures import StartDaemon
from support.waiting import wait_until


def test_two_clients_take_turns_on_the_gpu_they_share_and_the_other_gpu_is_never_held_back(
    start_daemon: StartDaemon,
) -> None:
    """Pod A on UUID1, pod B on UUID1 and UUID2."""
    daemon = start_daemon("--switch-time-mode=fixed", "--switch-time-fixed=1")
    with daemon.client().register(entry(1)) as a, daemon.client().register(entry(1), entry(2)) as b:
        lock_a = a.take_lock(10 * GIB)
        b.request(10 * GIB, gpu=0)
        assert b.expect(wire.WaitForMem).gpu == 0
        b.request(14 * GIB, gpu=1)
        on_second = b.expect(wire.LockOk)
        assert on_second.gpu == 1
        for _ in range(2):
            dropped = a.hear_until(wire.DropLock)
            assert (dropped.lock, dropped.reason) == (lock_a, wire.DropReason.QUANTUM)
            a.release(lock_a, again=True)
            assert b.expect(wire.MemAvailable).gpu == 0
            granted = b.expect(wire.LockOk)
            assert (granted.gpu, granted.contended) == (0, True)
            dropped = b.expect(wire.DropLock)
            assert (dropped.gpu, dropped.lock) == (0, granted.lock)
            b.release(granted.lock, gpu=0, again=True)
            lock_a = a.hear_until(wire.LockOk).lock
            b.expect(wire.WaitForMem)
        first, second = daemon.status()["gpus"]
        (alone,) = second["clients"]
        assert (second["uuid"], alone["is_running"], alone["turns"]) == (gpu_name(2), True, 1)
        assert first["clients"][0]["turns"] == 3


def test_small_clients_run_beside_each_other_and_are_left_alone(daemon: Daemon) -> None:
    clients = [daemon.client().register() for _ in range(4)]
    for client in clients:
        client.take_lock(3 * GIB)
    assert [client.hear_all() for client in clients] == [[], [], [], []]
    (gpu,) = daemon.status()["gpus"]
    assert (gpu["running"], gpu["waiting"], gpu["running_memory_usage"]) == (4, 0, 12 * GIB)


def test_memory_that_grows_sends_the_newest_back_to_the_queue(daemon: Daemon) -> None:
    with daemon.client().register() as old, daemon.client().register() as new:
        old.take_lock(6 * GIB)
        lock = new.take_lock(6 * GIB)
        old.send(wire.MemUpdate(0, 0, 10 * GIB, 0))
        dropped = new.expect(wire.DropLock)
        assert (dropped.lock, dropped.reason) == (lock, wire.DropReason.GROWTH)
        new.release(lock, again=True)
        new.expect(wire.WaitForMem)
        old.send(wire.MemUpdate(0, 0, GIB, 0))
        new.expect(wire.MemAvailable)
        new.expect(wire.LockOk)


@pytest.mark.parametrize(("waiting_gib", "is_cheap"), [(2, True), (10, False)])
def test_an_idle_holder_gives_way_at_once_only_when_the_switch_is_cheap(
    daemon: Daemon, waiting_gib: int, is_cheap: bool
) -> None:
    with daemon.client().register() as idle, daemon.client().register() as waits:
        lock = idle.take_lock(14 * GIB)
        waits.request(
            waiting_gib * GIB
        )  # 14 + 2 GiB are on the card together, though over the safe limit: nothing moves
        waits.expect(wire.WaitForMem)
        assert idle.expect(wire.Contended).contended
        idle.send(wire.Idle(0))
        drops = [wire.DropLock(0, wire.DropReason.IDLE, 10_000, lock)] if is_cheap else []
        assert idle.hear_all() == drops
        idle.release(lock)
        waits.expect(wire.MemAvailable)
        waits.expect(wire.LockOk)


def test_a_long_wait_is_told_once_with_who_holds_the_gpu(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--long-wait-seconds", "1")
    with daemon.client().register() as holder, daemon.client().register() as waits:
        holder.take_lock(10 * GIB)
        waits.request(10 * GIB)
        waits.expect(wire.WaitForMem)
        told = waits.expect(wire.LongWait)
        assert (told.place, told.holders) == (1, 1)
        assert told.waited_ms >= 1000
        assert b"pid " in told.holder
        said = rf"Client {waits.name} has waited \d\.\d s for {gpu_name(0)}, place 1, held by {holder.name}"
        daemon.log.wait_for(said)


def test_a_paused_client_is_not_told_that_it_waits_for_the_holder(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--long-wait-seconds", "1")
    with daemon.client().register() as holder, daemon.client().register() as waits:
        holder.take_lock(GIB)
        daemon.ctl("pause", waits.name)
        waits.request(GIB)
        told = waits.hear_until(wire.LongWait)
        assert (told.place, told.holders, told.holder.rstrip(b"\0")) == (1, 0, b"")
        daemon.log.wait_for(rf"Client {waits.name} has waited \d\.\d s for {gpu_name(0)}: it is paused")


def test_a_client_that_understands_it_is_told_by_when_it_will_start(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--long-wait-seconds", "1")
    with daemon.client().register() as holder, daemon.client().register(version=wire.STARTS_SINCE) as waits:
        holder.take_lock(10 * GIB)
        waits.request(10 * GIB)
        assert waits.hear_until(wire.ExpectedStart).within_ms <= 300_000
        waits.expect(wire.LongWait)


def test_a_process_says_nothing_of_its_own_limit_that_raises_it(daemon: Daemon) -> None:
    """Two processes of one run: the run's limit is shared, and one that says less of itself gets less."""
    run = b"s" * 16
    with (
        daemon.client().register(run=run, own_limit=4 * GIB) as one,
        daemon.client().register(run=run, own_limit=GIB) as other,
    ):
        daemon.ctl("limit", one.name, "2Gi")
        assert one.hear_until(wire.UpdateLimit).limit == 4 * GIB
        assert one.hear_until(wire.UpdateLimit).limit == 2 * GIB
        assert other.hear_until(wire.UpdateLimit).limit == GIB
        other.send(wire.BudgetAsk(0, 77, 3 * GIB))
        while (answer := other.hear_until(wire.Budget)).ask != 77:
            pass
        assert answer.serial == 0, "a no: its limit stays what it says of itself"


def test_two_processes_of_a_run_share_its_limit_exactly(daemon: Daemon) -> None:
    run = b"t" * 16
    with daemon.client().register(run=run) as one, daemon.client().register(run=run) as other:
        daemon.ctl("limit", one.name, "4Gi")
        recalled = other.hear_until(wire.BudgetRecall)
        other.send(wire.BudgetReturn(0, recalled.serial, recalled.keep, 0))
        recalled = one.hear_until(wire.BudgetRecall)
        one.send(wire.BudgetReturn(0, recalled.serial, recalled.keep, 0))
        one.send(wire.BudgetAsk(0, 1, 3 * GIB))
        while (first := one.hear_until(wire.Budget)).ask != 1:
            pass
        assert 3 * GIB <= first.budget <= 4 * GIB
        one.send(wire.MemUpdate(0, 0, 3 * GIB, 0))
        other.send(wire.BudgetAsk(0, 2, 2 * GIB))
        recalled = one.hear_until(wire.BudgetRecall)
        one.send(wire.BudgetReturn(0, recalled.serial, 3 * GIB, 3 * GIB))
        while (second := other.hear_until(wire.Budget)).ask != 2:
            pass
        assert second.budget < 2 * GIB
        assert second.others == 3 * GIB


def test_a_client_that_asks_whether_the_scheduler_is_there_is_answered_and_keeps_its_place(daemon: Daemon) -> None:
    with daemon.client().register() as holder, daemon.client().register() as waiter:
        lock = holder.take_lock(10 * GIB)
        waiter.request(10 * GIB)
        waiter.expect(wire.WaitForMem)
        for _ in range(2):
            waiter.send(wire.Ping(0))
            assert waiter.hear() == wire.Pong(0)
        holder.release(lock)
        waiter.expect(wire.MemAvailable)
        waiter.expect(wire.LockOk)


def test_a_stopped_program_costs_the_others_one_turn_and_gets_the_next_one_after_it_has_spoken(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("--switch-time-mode=fixed", "--switch-time-fixed=1", "--grace-seconds=1")
    with daemon.client().register() as stopped, daemon.client().register() as other:
        lock = stopped.take_lock(10 * GIB)
        mine = other.take_lock(10 * GIB)
        wait_until(lambda: not daemon.status()["gpus"][0]["quantum_left_seconds"], "the quantum is over")
        other.send(wire.Ping(0))
        assert other.hear() == wire.Pong(0)  # No DROP_LOCK came before: nobody waits for what it holds.
        assert [seat["state"] for seat in daemon.status()["gpus"][0]["clients"]] == ["silent", "running"]
        stopped.release(lock, again=True)
        stopped.hear_until(wire.WaitForMem)
        other.release(other.hear_until(wire.DropLock).lock)
        assert stopped.hear_until(wire.LockOk).lock > mine


def test_connections_that_claim_to_run_with_more_than_there_is_stop_nobody(start_daemon: StartDaemon) -> None:
    """Each claim would hold the card for a grace time if it were believed, and no turn here waits that long."""
    daemon = start_daemon("--switch-time-mode=fixed", "--switch-time-fixed=1", "--grace-seconds=60")
    lie = {"swappable": wire.MAX_BYTES, "state": wire.ClaimState.UNSHARED}
    with daemon.client().register() as one, daemon.client().register() as other:
        lock = one.take_lock(10 * GIB)
        other.request(10 * GIB)
        for holder, next_one in [(one, other), (other, one)]:
            with daemon.client().register(entry(**lie)) as liar:
                assert liar.expect(wire.LockOk).lock == liar.expect(wire.DropLock).lock
                liar.expect(wire.WaitForMem)
                assert holder.hear_until(wire.DropLock).lock == lock
                holder.release(lock, again=True)
                lock = next_one.hear_until(wire.LockOk).lock


def test_a_holder_that_connects_again_goes_on_if_nobody_waits_and_else_waits_like_everybody(daemon: Daemon) -> None:
    first = daemon.client().register()
    lock = first.take_lock(10 * GIB)
    first.close()
    claim = {"state": wire.ClaimState.HOLDING, "swappable": 10 * GIB}
    with daemon.client().register(entry(lock=lock, **claim)) as second, daemon.client().register() as other:
        lock = second.expect(wire.LockOk).lock
        other.request(10 * GIB)
        other.expect(wire.WaitForMem)
        second.close()
        other.hear_until(wire.LockOk)
        with daemon.client().register(entry(lock=lock, **claim)) as third:
            assert third.expect(wire.DropLock).lock == lock
            third.expect(wire.WaitForMem)


def test_ping_is_enough_to_be_queued_again(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("--switch-time-mode=fixed", "--switch-time-fixed=1", "--grace-seconds=1")
    with daemon.client().register() as stopped, daemon.client().register() as other:
        stopped.take_lock(10 * GIB)
        other.take_lock(10 * GIB)
        stopped.send(wire.Ping(0))
        stopped.hear_until(wire.Pong)
        stopped.expect(wire.WaitForMem)
