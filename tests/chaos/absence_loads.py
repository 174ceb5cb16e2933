"""Loads in which the scheduler or a program hangs, or the scheduler is away, with the waits that are shipped. As
loads.py."""

import signal
import time
from pathlib import Path

from chaos.loads import Load, Result, judge
from libnvshare.machine import Machine
from libnvshare.programs import GIB, NULL_DRIVER, OUT_OF_MEMORY, Program, Programs
from support.daemon import Daemon
from support.waiting import wait_until

KNOWN_S = 30.0
"""Each end knows within this time that the other hangs."""
LONG_QUANTUM = ("--switch-time-mode=fixed", "--switch-time-fixed=600")
STARTED, FIT = 4, 2
JOINS = "the first allocation waits for the scheduler"


def places(machine: Machine) -> dict[int, tuple[str, int]]:
    """The state and the place in the queue of each process."""
    return {client["pid"]: (client["state"], client["place"]) for client in machine.clients()}


def holder_and_waiters(machine: Machine, **environment: str) -> tuple[Program, Program, Program]:
    """One that uses the card all the time, one that waits for it, and one behind that."""
    holder, first, second = (machine.client(9 * GIB, **environment) for _ in range(3))  # type: ignore[arg-type]
    states = {holder: ("running", 0), first: ("waiting", 1), second: ("waiting", 2)}
    for program, wanted in states.items():
        program.say(f"spin 1000000 {1 if program is not holder else 100_000}")
        wait_until(lambda p=program, w=wanted: places(machine)[p.process.pid] == w, f"{wanted}")  # type: ignore[misc]
    return holder, first, second


def hung_scheduler(place: Path, seconds: float) -> Result:
    """5: the scheduler is stopped (SIGSTOP) while one program holds the card and two wait for it."""
    return hang_scheduler(place, KNOWN_S)


def hang_scheduler(place: Path, bound_s: float, **environment: str) -> Result:
    place.mkdir()
    with Machine(place, *LONG_QUANTUM) as machine:
        _, *waiters = holder_and_waiters(machine, **environment)
        before = places(machine)
        machine.daemon.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        have_run = [waiter.answer(timeout=2 * bound_s)[0] == "0" for waiter in waiters]
        longest = time.monotonic() - began
        machine.daemon.process.send_signal(signal.SIGCONT)
        for waiter in waiters:  # a client that waits again does so for the turn that it asked for before
            wait_until(lambda w=waiter: _waits_again(w), "it has heard the scheduler")  # type: ignore[misc]
        after = places(machine)
    measured = f"two programs that waited ran after {longest:.1f} s; places before and after: {_said(before, after)}"
    return judge(
        measured, they_run=all(have_run), it_is_known_in_time=longest < bound_s, nobody_loses_a_place=before == after
    )


def _waits_again(program: Program) -> bool:
    """False if its work still passes, because it has not yet heard the scheduler."""
    program.say("spin 1000 1")
    if program.waits():
        return True
    program.answer()
    return False


def hung_program(place: Path, seconds: float) -> Result:
    """5: a program that waits is stopped (SIGSTOP) until the scheduler knows that it hangs, and continued."""
    place.mkdir()
    with Machine(place, *LONG_QUANTUM) as machine:
        _, first, _ = holder_and_waiters(machine)
        before = places(machine)
        first.process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: places(machine)[first.process.pid][0] == "silent", "the scheduler knows", 2 * KNOWN_S)
        known_s = time.monotonic() - began
        first.process.send_signal(signal.SIGCONT)
        wait_until(lambda: places(machine)[first.process.pid][0] == "waiting", "it is heard again")
        after = places(machine)
    measured = f"known after {known_s:.1f} s; places before and after: {_said(before, after)}"
    return judge(measured, it_is_known_in_time=known_s < KNOWN_S, nobody_loses_a_place=before == after)


def _said(*all_places: dict[int, tuple[str, int]]) -> str:
    return " and ".join(", ".join(str(at) for _, at in places.values() if at) for places in all_places)


def started_without(place: Path, seconds: float) -> Result:
    """10: processes of one run start while the scheduler is away. All together want twice their limit."""
    return start_without(place, seconds)


def start_without(place: Path, seconds: float, **environment: str) -> Result:
    place.mkdir()
    end = time.monotonic() + seconds
    rounds = granted = refused = 0
    daemon = Daemon(place / "d")
    try:
        while not rounds or time.monotonic() < end:
            daemon.kill()
            rounds += 1
            shared = {"NVSHARE_RUN_ID": f"{rounds:032x}", "NVSHARE_GPU_MEMORY_LIMIT": str(FIT * GIB)}
            shared |= {"LD_LIBRARY_PATH": str(NULL_DRIVER), "NVSHARE_SOCKET": daemon.socket, **environment}
            with Programs(place, shared) as programs:
                started = [programs.start() for _ in range(STARTED)]
                for program in started:
                    program.say(f"init 0\nalloc {GIB}")
                for program in started:
                    wait_until(lambda p=program: JOINS in p.said(), "its allocation waits")  # type: ignore[misc]
                daemon = Daemon(place / "d")
                answers = [(program.answer(), program.answer())[1][0] for program in started]
            granted += answers.count("0")
            refused += answers.count(str(OUT_OF_MEMORY))
    finally:
        daemon.kill()
    measured = f"{rounds} times {STARTED} processes: {granted} of {FIT * rounds} GiB allocated, {refused} refused"
    return judge(measured, the_limit_is_used_exactly=granted == FIT * rounds == refused)


LOADS: dict[str, tuple[str, Load]] = {
    "5c": ("a hung scheduler", hung_scheduler),
    "5d": ("a hung program", hung_program),
    "10": ("started without a scheduler", started_without),
}
