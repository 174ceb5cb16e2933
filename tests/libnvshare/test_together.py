"""Programs together on simulated GPUs under the real scheduler. The cards' trace judges, not what anybody says."""

import re
import signal
import time
from pathlib import Path

import pytest
from machine import Machine, busy_ns, turns
from programs import CHECKS, GIB, MIB, OUT_OF_MEMORY, wait_until

FIXED_1S = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


def test_two_that_do_not_fit_never_overlap_and_keep_the_quantum(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S) as machine:
        both = [machine.client(10 * GIB) for _ in range(2)]
        for program in both:
            program.say("loop 500000 5000 20")  # kernels of 5 ms for 5 s, twenty queued at a time
        for program in both:
            assert program.answer(40)[0] == "0"
        traces = machine.traces()
        assert machine.overlaps() == []
        taken = list(turns(traces, traces[0].uuids[0]))
        assert len(taken) >= 4
        lengths = [(end - begin) / 1e9 for _, begin, end in taken]
        # 1 s, 100 ms, the bound of the drain (half a second), and the paging of 10 GiB that the first kernel waits for.
        assert all(length < 1.7 for length in lengths), lengths
        assert all(length > 0.7 for length in lengths[1:-2]), lengths  # each one's last turn may be short
        shares = [busy_ns(trace) for trace in traces]
        assert max(shares) < 3 * min(shares), shares


def test_two_that_fit_run_at_the_same_time(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S) as machine:
        both = [machine.client(2 * GIB) for _ in range(2)]
        for program in both:
            program.say("loop 500000 1500 4")
        for program in both:
            assert program.answer(30)[0] == "0"
        assert len(list(turns(machine.traces(), machine.traces()[0].uuids[0]))) > 20


def test_queued_work_is_kept_short_enough_to_give_the_card_away(tmp_path: Path) -> None:
    """A program that never synchronises: 2,000 kernels of 10 ms would be 20 s of work in the queue."""
    with Machine(tmp_path, *FIXED_1S) as machine:
        greedy, other = machine.client(10 * GIB), machine.client(10 * GIB)
        greedy.say("spin 1000000 400")
        time.sleep(0.3)
        began = time.monotonic()
        other.do("spin 1000 1", timeout=30)
        assert time.monotonic() - began < 3.5  # the rest of a quantum, the drain, the paging
        assert greedy.answer(60)[0] == "0"
        for program in (greedy, other):
            program.do("sync", timeout=60)
        assert machine.overlaps() == []


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
        one.say("loop 500000 4000 10")
        two.say("both 500000 4000")
        assert one.answer(30)[0] == "0"
        result, shared, longest_shared, alone, longest_alone = map(float, two.answer(30))
        assert result == 0
        assert longest_shared > 700, "it waited for its turns on the first GPU"
        assert longest_alone < 400, f"held back for {longest_alone} ms on a GPU that it has alone"
        assert alone > shared
        uuids = machine.traces()[0].uuids
        assert [o for o in machine.overlaps() if o.uuid == uuids[0]] == []


def test_the_daemon_killed_ten_times_under_load_fails_nobody(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, "--settle-seconds=0.3") as machine:
        clients = [machine.client(size * GIB, NVSHARE_RECONNECT_MS="100") for size in (2, 3, 10)]
        for program in clients:
            program.say("loop 200000 7000 4")
        for _ in range(10):
            time.sleep(0.3)
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
        waiter.do("spin 1000 1", timeout=15)
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


def test_an_idle_holders_card_goes_to_who_waits_at_once(tmp_path: Path) -> None:
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=60", memory="2Gi") as machine:
        holder, waiter = machine.client(GIB), machine.client(GIB)
        holder.do("spin 1000 1")
        holder.do("sync")
        began = time.monotonic()
        waiter.do("spin 1000 1", timeout=50)
        assert time.monotonic() - began < 10  # what moving 2 GiB is worth, and not a quantum of 60 s
        assert machine.overlaps() == []


def test_a_long_wait_is_explained_to_who_waits(tmp_path: Path) -> None:
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=3", "--long-wait-seconds=1") as machine:
        holder, waiter = machine.client(10 * GIB), machine.client(10 * GIB)
        holder.say("loop 500000 6000 4")
        wait_until(lambda: any(trace.kernels() for trace in machine.traces()), what="the holder's first kernel")
        waiter.do("spin 1000 1", timeout=30)
        line = next(line for line in waiter.said().splitlines() if "waiting for" in line)
        assert re.search(
            r"waiting for GPU-[-0-9a-f]+ for 1 s, place 1 in the queue; held by lib_client.* for \d+ s$", line
        )
        assert holder.answer(30)[0] == "0"


def test_a_long_kernel_is_not_idleness(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, scale=1.0, memory="2Gi") as machine:
        holder, waiter = machine.client(GIB), machine.client(GIB)
        holder.do("spin 600000 1")
        waiter.do("spin 1000 1", timeout=30)
        waiter.do("sync", timeout=30)
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
        wait_until(lambda: len(machine.clients()) == many, timeout=30, what="all registered")
        print(f"{many} processes registered in {time.monotonic() - began:.2f} s")


def test_kernels_that_wait_for_each_other_across_gpus_finish(tmp_path: Path) -> None:
    with Machine(tmp_path, *FIXED_1S, "--grace-seconds=1", gpus=2) as machine:
        others = [machine.client(10 * GIB, gpu=gpu) for gpu in range(2)]
        for other in others:
            other.say("loop 200000 4000 4")
        done = machine.run(CHECKS / "lib_collective", "200", str(10 * GIB), timeout=60)
        assert done.returncode == 0, done.stderr
        for other in others:
            assert other.answer(60)[0] == "0"
