"""Work that waits for other work which has yet to be submitted: a lock changes hands all the same, unrevoked."""

import re
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from libnvshare.conftest import own_socket
from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.held_turns import switches_of, waits_of
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, Program, Programs
from nvshare.simgpu.config import SimGpu
from nvshare.wire.messages import DropLock, LockOk, LockReleased, ReqLock
from support.waiting import wait_until

# A drain that does not end by itself is found by its revocation, whatever the speed of the machine.
QUANTUM_S, GRACE_S = 1, 30
OPTIONS = ("--switch-time-mode=fixed", f"--switch-time-fixed={QUANTUM_S}", f"--grace-seconds={GRACE_S}")
ROUNDS = 500


class Collective:
    """Ranks on one GPU each, from `first` on, in one process."""

    def __init__(
        self, machine: Machine, *, ahead: int, ranks: int, first: int = 0, count: int, **environment: str
    ) -> None:
        words = (10 * GIB, ahead, machine.directory / "flags", ranks, first, count)
        self.program = machine.start(CHECKS / "lib_collective", *map(str, words), **environment)

    def results(self) -> tuple[int, int]:
        """Rounds, and the longest pause in milliseconds."""
        rounds, longest_ms = self.program.answer(60)
        assert self.program.process.wait(60) == 0, self.program.said()
        return int(rounds), int(longest_ms)


def beside_each(machine: Machine, gpus: int) -> list[Program]:
    """A client on each GPU that does not fit beside another one. Its kernels take 2 ms, for an hour."""
    others = [machine.client(10 * GIB, gpu=gpu) for gpu in range(gpus)]
    for other in others:
        other.say("loop 200000 3600000 4")
    return others


def play(machine: Machine, ranks: list[Collective], drops: int) -> list[tuple[int, int]]:
    """Until locks have been taken back so many times at the end of a quantum; each rank's results."""
    log, flags = machine.daemon.log, machine.directory / "flags"
    log.wait_for(r"taken back \(quantum\)", times=drops)
    wait_until(lambda: struct.unpack_from("Q", flags.read_bytes())[0] >= ROUNDS, "rounds are played")
    ranks[0].program.say("end")
    results = [rank.results() for rank in ranks]
    print(f"(rounds, longest pause in ms) {results}")
    assert log.count("revoked") == 0
    return results


def assert_waits_are_bounded(journal: Path, longest_pause_ms: int, clients: int) -> None:
    """The bound of decision 11 (mode fixed has no lag, clients of one priority have no horizon). The longest switch of
    this run is in place of the grace time, which it must not reach."""
    switch_s = max(switches_of(journal))
    longest_s = max(waits_of(journal))
    bound_s = (clients + 1) * (2 * QUANTUM_S + switch_s)
    print(
        f"longest switch {switch_s:.2f} s, wait {longest_s:.2f} s, pause {longest_pause_ms} ms; bound {bound_s:.1f} s"
    )
    assert switch_s < GRACE_S
    assert longest_s <= bound_s
    assert longest_pause_ms <= 1000 * bound_s


def assert_turns_alternate(machine: Machine, uuid: str) -> None:
    """Nobody whose quantum has ended is the next to get the GPU."""
    lines = [line for line in machine.daemon.log.lines if uuid in line]
    ended = ""
    for line in lines:
        if given := re.search(r"Lock given to client (\w+)", line):
            assert given[1] != ended, machine.daemon.log.text
            ended = ""
        elif over := re.search(r"Lock of client (\w+) .*taken back \(quantum\)", line):
            ended = over[1]


@pytest.mark.parametrize("ahead", [1, 50])
def test_kernels_that_wait_for_each_other_across_gpus_finish(tmp_path: Path, ahead: int) -> None:
    with Machine(tmp_path, *OPTIONS, gpus=2) as machine:
        beside_each(machine, 2)
        ((rounds, _),) = play(machine, [Collective(machine, ahead=ahead, ranks=2, count=2)], drops=6)
        assert rounds > ROUNDS


@pytest.mark.parametrize("ahead", [1, 20])
def test_a_job_of_four_processes_on_four_gpus_takes_its_turns_beside_one_client_on_each(
    tmp_path: Path, ahead: int
) -> None:
    job = {"NVSHARE_RUN_ID": "11" * 16, "NVSHARE_GANG": "1"}
    journal = tmp_path / "journal"
    with Machine(tmp_path, *OPTIONS, f"--journal-file={journal}", gpus=4) as machine:
        beside_each(machine, 4)
        ranks = [Collective(machine, ahead=ahead, ranks=4, first=rank, count=1, **job) for rank in range(4)]
        results = play(machine, ranks, drops=12)
        assert min(rounds for rounds, _ in results) > ROUNDS
        for gpu in machine.daemon.status()["gpus"]:
            assert_turns_alternate(machine, gpu["uuid"])
    assert_waits_are_bounded(journal, max(pause_ms for _, pause_ms in results), clients=8)


@pytest.fixture
def on_cards(tmp_path: Path) -> Iterator[Programs]:
    """Programs on two simulated cards, with the test's own scheduler."""
    directory = tmp_path / "gpus"
    directory.mkdir()
    cards = SimGpu().with_values(directory=str(directory), gpus=2, memory="16Gi", scale=0.01)
    with Programs(tmp_path, {**cards.environment({}), **own_socket(tmp_path)}) as started:
        yield started


def holder(started: Programs, scheduler: FakeScheduler, gpus: int) -> tuple[Program, LibraryConnection]:
    """A client that holds lock g + 1 at each GPU g, and whose current context is on GPU 0."""
    program = started.start()
    peer = scheduler.join(program)
    for gpu in range(gpus):
        if gpu:
            program.do(f"init {gpu}")
        program.say("spin 1 1")
        assert peer.expect(ReqLock).gpu == gpu
        peer.send(LockOk(gpu, False, gpu + 1))
        assert program.answer()[0] == "0"
        program.do("sync")
    program.do("use 0")
    return program, peer


def drop(gpu: int, lock: int = 0) -> DropLock:
    return DropLock(gpu, 1, 10_000, lock or gpu + 1)


def released(peer: LibraryConnection) -> int:
    return peer.expect(LockReleased).gpu


def test_a_host_function_gets_what_a_thread_at_the_gate_owns(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = holder(on_card, scheduler, 1)
    program.do("stream 1")
    program.do("spin 1 1 1")
    program.do("holdhost 1")
    peer.deliver(drop(0))
    program.say("spinthenflag 1")  # on another stream
    assert program.answer()[0] == "0"
    assert released(peer) == 0


def test_nothing_is_let_through_to_a_stream_with_unfinished_work(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = holder(on_card, scheduler, 1)
    program.do("stream 1")
    program.do("hold 1")
    peer.deliver(drop(0))
    program.say("spinthenflag 1 1")
    assert program.waits()
    program.process.send_signal(signal.SIGUSR1)  # the kernel ends
    assert peer.expect(LockReleased) == LockReleased(0, True, 1)
    assert not program.hear(0)


def test_locks_of_one_process_that_are_dropped_together_are_released_together(
    on_cards: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = holder(on_cards, scheduler, 2)
    program.do("hold")  # on GPU 0
    peer.deliver(drop(0), drop(1))
    program.do("use 1")
    program.say("spinthenflag 1")  # passes the closed gate of GPU 1, because GPU 0 waits for it
    assert program.answer()[0] == "0"
    assert {released(peer), released(peer)} == {0, 1}


def test_work_passes_a_gate_without_a_lock_if_a_drain_waits_for_it(
    on_cards: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = holder(on_cards, scheduler, 2)
    peer.send(drop(1))
    assert released(peer) == 1
    program.do("hold")  # on GPU 0
    peer.deliver(drop(0))
    program.do("use 1")
    program.say("spinthenflag 1")
    peer.expect(ReqLock)
    assert program.answer()[0] == "0"
    assert released(peer) == 0


def test_one_launch_on_several_gpus_is_drained_on_each_also_if_one_was_drained_while_it_waited_for_another(
    on_cards: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = holder(on_cards, scheduler, 2)
    for gpu in range(2):
        program.do(f"use {gpu}")
        program.do("stream 1")
    peer.send(drop(0))
    assert released(peer) == 0
    program.say("holdtogether 2")
    assert peer.expect(ReqLock).gpu == 0  # it waits for the first GPU
    peer.send(drop(1))
    assert released(peer) == 1
    peer.deliver(LockOk(1, False, 7), LockOk(0, False, 8))
    assert program.answer() == ["0"]
    peer.deliver(drop(1, 7))
    for _ in range(3):  # each in a later step of the helper
        assert [message.gpu for message in peer.heard(LockReleased)] == [0, 1]
    program.do("flag 1")
    assert peer.expect(LockReleased).lock == 7


def test_one_launch_on_several_gpus_waits_for_the_gpu_of_a_green_context_too(
    on_cards: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = holder(on_cards, scheduler, 2)
    program.do("use 0")
    program.do("stream 1")
    program.do("green 1")
    peer.send(drop(1))
    assert released(peer) == 1
    program.say("holdtogether 2")
    assert peer.expect(ReqLock).gpu == 1
    assert program.waits()
    peer.deliver(LockOk(1, False, 7))
    assert program.answer() == ["0"]
    peer.deliver(drop(1, 7))
    assert not [message for message in peer.heard(LockReleased) if message.lock == 7]
    program.do("flag 1")
    assert peer.expect(LockReleased).lock == 7


def test_a_drain_that_does_not_end_keeps_another_lock_for_a_bounded_time(
    on_cards: Programs, scheduler: FakeScheduler
) -> None:
    """Four seconds, and only once: tests/native/lib_unit_drains.c checks both in virtual time."""
    program, peer = holder(on_cards, scheduler, 2)
    program.do("hold")  # on GPU 0
    peer.deliver(drop(0), drop(1))
    assert released(peer) == 1
    peer.deliver(LockOk(1, False, 7))
    peer.send(drop(1, 7))
    assert released(peer) == 1
    program.do("flag 1")
    assert released(peer) == 0
