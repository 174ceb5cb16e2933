"""Programs together on simulated GPUs under the real scheduler. The cards' trace judges, not what anybody says."""

import re
import signal
import time
from pathlib import Path

import pytest

from libnvshare.machine import Machine, turns
from libnvshare.programs import GIB, MIB, OUT_OF_MEMORY, Program
from support.waiting import wait_until

FIXED_1S = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


ENDLESS = "loop 500000 3600000"  # kernels of 5 ms for an hour: the test ends the program when it has seen enough
QUANTUM_ENDED = r"taken back \(quantum\)"


def end(*programs: Program) -> None:
    for program in programs:
        program.process.kill()
        program.process.wait()


def test_two_that_do_not_fit_never_overlap_and_take_turns(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S) as machine:
        both = [machine.client(10 * GIB) for _ in range(2)]
        for program in both:
            program.say(f"{ENDLESS} 20")  # twenty queued at a time
        machine.daemon.log.wait_for(QUANTUM_ENDED, times=4, timeout=60)
        end(*both)
        traces = machine.traces()
        assert machine.overlaps() == []
        holders = [process for process, _, _ in turns(traces, traces[0].uuids[0])]
        assert len(holders) >= 4
        assert set(holders) == {trace.process for trace in traces}
        assert machine.daemon.log.count("revoked") == 0


def test_two_that_fit_run_at_the_same_time(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S) as machine:
        both = [machine.client(2 * GIB) for _ in range(2)]
        for program in both:
            program.say(f"{ENDLESS} 4")

        def changes() -> int:
            traces = machine.traces()
            return len(list(turns(traces, traces[0].uuids[0])))

        wait_until(lambda: changes() > 20, what="kernels of both, by turns of the card itself")
        assert machine.daemon.log.count("taken back") == 0


def test_queued_work_is_kept_short_enough_to_give_the_card_away(tmp_path: Path) -> None:
    """A program that never synchronises: 6,000 kernels of 10 ms would be a minute of work in the queue."""
    with Machine(tmp_path, *FIXED_1S) as machine:
        greedy, other = machine.client(10 * GIB), machine.client(10 * GIB)
        greedy.say("spin 1000000 6000")
        wait_until(lambda: any(trace.kernels() for trace in machine.traces()), what="the first kernel")
        other.do("spin 1000 1", timeout=60)
        other.do("sync", timeout=60)
        assert machine.daemon.log.count("revoked") == 0  # the queue was empty long before the grace time of 10 s
        end(greedy)
        assert machine.overlaps() == []


@pytest.mark.usefixtures("patient")
def test_a_pods_limit_is_shared_exactly_by_two_processes_of_eight_threads(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        run = "0123456789abcdef" * 2
        both = [machine.client(NVSHARE_RUN_ID=run) for _ in range(2)]
        machine.daemon.ctl("limit", first_client(machine), "1Gi")
        wait_until(lambda: both[0].do("info")[1] == str(GIB) and both[1].do("info")[1] == str(GIB), what="the limit")
        for program in both:
            program.say(f"fill 8 {3 * MIB}")
        pieces = [int(program.answer(60)[1]) for program in both]
        assert sum(pieces) == GIB // (3 * MIB), pieces
        wait_until(lambda: all(int(program.do("info")[0]) < 3 * MIB for program in both), what="both see it full")


@pytest.mark.usefixtures("patient")
def test_nobody_is_refused_while_the_pod_has_room(tmp_path: Path) -> None:
    """Sixteen threads of two processes, each with at most 60 MiB at a time: 960 MiB of 1 GiB."""
    with Machine(tmp_path, "--settle-seconds=0") as machine:
        both = [machine.client(NVSHARE_RUN_ID="fedcba9876543210" * 2) for _ in range(2)]
        machine.daemon.ctl("limit", first_client(machine), "1Gi")
        wait_until(lambda: all(program.do("info")[1] == str(GIB) for program in both), what="the limit")
        for program in both:
            program.say(f"hammer 8 300 {60 * MIB}")
        assert [program.answer(90)[1:] for program in both] == [["2400", "0", "0"]] * 2


def first_client(machine: Machine) -> str:
    """The id of some client, as nvsharectl shows it."""
    return str(machine.clients()[0]["id"])


def test_a_process_with_two_gpus_takes_turns_on_one_and_is_never_held_back_on_the_other(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, gpus=2) as machine:
        one = machine.client(10 * GIB)
        two = machine.client(10 * GIB)
        two.do("init 1")
        one.say(f"{ENDLESS} 10")
        two.say("both 500000 3600000")
        first, second = machine.traces()[0].uuids
        log = machine.daemon.log
        log.wait_for(rf"on {first} {QUANTUM_ENDED}", times=4, timeout=60)
        end(one, two)
        assert [o for o in machine.overlaps() if o.uuid == first] == []
        assert (log.count(f"Lock given .* on {second}"), log.count(f"Client .* waits for {second}")) == (1, 0)
        assert log.count(f"on {second} taken back") == 0
        alone, both = sorted(machine.traces(), key=lambda trace: trace.pid != one.process.pid)
        begins = [kernel.begin_ns for kernel in both.kernels() if both.uuids[kernel.card] == second]
        turns_of_one = [turn for turn in turns([alone, both], first) if turn[0] == alone.process]
        for _, begin, finish in turns_of_one[1:-1]:  # about a second each: room for 200 kernels
            assert sum(begin < at < finish for at in begins) >= 10


def test_the_daemon_killed_ten_times_under_load_fails_nobody(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, "--settle-seconds=0.3") as machine:
        clients = [machine.client(size * GIB, NVSHARE_RECONNECT_MS="100") for size in (2, 3, 10)]
        for program in clients:
            program.say("loop 200000 7000 4")
        for _ in range(10):
            wait_until(lambda: len(machine.clients()) > 0, what="one is back")
            machine.restart()
        for program in clients:
            result, launches, _ = program.answer(60)
            assert result == "0"
            assert int(launches) > 0
        wait_until(lambda: len(machine.clients()) == 3, what="all are back")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_holder_that_dies_or_stops_does_not_keep_the_others_waiting(tmp_path: Path, how: signal.Signals) -> None:
    with Machine(tmp_path, *FIXED_1S, "--grace-seconds=1") as machine:
        holder, waiter = machine.client(10 * GIB), machine.client(10 * GIB)
        holder.say("loop 500000 20000 4")
        wait_until(lambda: any(trace.kernels() for trace in machine.traces()), what="the holder's first kernel")
        holder.process.send_signal(how)
        waiter.do("spin 1000 1", timeout=60)
        holder.process.send_signal(signal.SIGCONT)


def test_a_forked_child_shares_too(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        program = machine.start()
        program.say("fork")
        answers = sorted(program.answer() for _ in range(2))
        assert ["0", "0"] in answers  # the child's context
        program.do("init 0")
        program.do("spin 1000 1")
        wait_until(lambda: len(machine.traces()) == 2, what="two processes on the card")


def test_an_idle_holders_card_goes_to_a_waiting_program_at_once(tmp_path: Path) -> None:
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=60", memory="2Gi") as machine:
        holder, waiter = machine.client(900 * MIB), machine.client(900 * MIB)
        holder.do("spin 1000 1")
        holder.do("sync")
        waiter.do("spin 1000 1", timeout=50)
        assert "(idle)" in machine.daemon.log.wait_for("taken back")  # and not at the end of a quantum of 60 s
        assert machine.overlaps() == []


def test_a_long_wait_is_explained_to_the_program_that_waits(tmp_path: Path) -> None:
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=60", "--long-wait-seconds=1") as machine:
        holder, waiter = machine.client(10 * GIB), machine.client(10 * GIB)
        holder.say(f"{ENDLESS} 4")
        wait_until(lambda: any(trace.kernels() for trace in machine.traces()), what="the holder's first kernel")
        waiter.say("spin 1000 1")
        wait_until(lambda: "waiting for" in waiter.said(), what="the explanation")
        end(holder)
        assert waiter.answer(60)[0] == "0"
        line = next(line for line in waiter.said().splitlines() if "waiting for" in line)
        wait = r"waiting for memory of GPU-[-0-9a-f]+ for \d+ s, place 1 in the queue; held by lib_client.* for \d+ s"
        assert re.search(wait + r"; this program will probably start within \d+ s$", line)


def test_a_long_kernel_is_not_idleness(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, "--grace-seconds=60", memory="2Gi") as machine:
        holder, waiter = machine.client(900 * MIB), machine.client(900 * MIB)
        holder.do("hold")
        waiter.say("spin 1000 1")
        assert "(quantum)" in machine.daemon.log.wait_for("taken back")  # and not (idle), long before
        holder.do("flag 1")  # the kernel ends
        assert waiter.answer()[0] == "0"
        waiter.do("sync")
        assert machine.overlaps() == []


def test_a_limit_refuses_one_and_not_its_neighbour(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        small = machine.client(NVSHARE_GPU_MEMORY_LIMIT="1Gi")
        large = machine.client(NVSHARE_GPU_MEMORY_LIMIT="3Gi")
        assert small.ask(f"alloc {2 * GIB}")[0] == str(OUT_OF_MEMORY)
        large.do(f"alloc {2 * GIB}")


def test_many_processes_start_at_once(tmp_path: Path) -> None:
    with Machine(tmp_path, memory="1Ti") as machine:
        many = 100
        began = time.monotonic()
        programs = [machine.start() for _ in range(many)]
        for program in programs:
            program.say("init 0")
        for program in programs:
            assert program.answer(60)[0] == "0"
        wait_until(lambda: len(machine.clients()) == many, seconds=60, what="all registered")
        print(f"{many} processes registered in {time.monotonic() - began:.2f} s")
