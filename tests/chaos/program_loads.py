"""Loads with real programs under the library on simulated cards, and floods of another user. As loads.py."""

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

from bench.floods import QUIET_P99_MS, WANTED_P99_MS, await_idleness, flood
from bench.scheduler import Scheduler

from chaos.loads import FAST, GRACE_S, MAX_WAIT_S, NEEDS_ROOT, QUANTUM_S, Load, Result, Victim, judge, serving, until
from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, NULL_DRIVER, Program, Programs
from libnvshare.restless import Restless

FLOODED = {
    "memory updates": 900,
    "lock requests": 900,
    "idle and busy": 900,
    "budget questions": 300,
    "core limits of many groups": 900,
}
CONNECTING = {"connections": 1, "registrations": 1, "broken frames": 1}
HOSTILE = {"pings": 900, "unread answers": 200, "descriptors": 1}
PIECES = {"half frames": 200, "single bytes": 900, "stopped senders": 200}
QUIET_S = 1.0
MAX_LATE_S = 1.0
"""A call that waits longer than this was held back by a program that does not run."""


class Flooded(NamedTuple):
    """How long the other user waited before, during and after the flood, and the scheduler's own part during it."""

    before: list[float]
    during: list[float]
    after: list[float]
    own: list[float]

    @property
    def quiet_p99_ms(self) -> float:
        """What the machine does to waits without the flood: a machine may become busy at any time."""
        return max(_p99_ms(self.before), _p99_ms(self.after))


def _floods(place: Path, seconds: float, kinds: dict[str, int]) -> Result:
    if os.geteuid() != 0:
        return NEEDS_ROOT  # the flood comes from another user
    place.parent.chmod(0o755)
    flooded: dict[str, Flooded] = {}
    for kind, clients in kinds.items():
        many = ("--max-clients=2000", "--max-clients-per-group=1000", "--log-level=error", "--settle-seconds=0")
        with serving(place, *many) as daemon:
            where = Scheduler(daemon.pid, Path(daemon.socket), Path(daemon.operator_socket))
            with Victim(daemon) as victim:
                time.sleep(QUIET_S)
                before = list(victim.waits)
                with flood(where, kind, clients, 0):
                    since = len(victim.waits)
                    time.sleep(seconds)
                    until_then = len(victim.waits)
                    during, own = victim.waits[since:until_then], victim.own[since:until_then]
                await_idleness(daemon.pid)
                over = len(victim.waits)
                time.sleep(QUIET_S)
                after = victim.waits[over:]
            flooded[kind] = Flooded(before, during, after, own)
    return judge_floods(flooded)


def judge_floods(flooded: dict[str, Flooded]) -> Result:
    """By the other user's waits. A long p99 counts only if it was short before and after the flood; that of the
    scheduler's own processor time, which other load hardly changes, always counts."""
    measured: list[str] = []
    late: list[str] = []
    slow: list[str] = []
    not_judged: list[str] = []
    for kind, one in flooded.items():
        quiet, p99, own_p99 = one.quiet_p99_ms, _p99_ms(one.during), _p99_ms(one.own)
        measured.append(f"{kind}: p99 {p99:.0f} ms of {len(one.during)} (without it {quiet:.0f}), own {own_p99:.0f}")
        if p99 > WANTED_P99_MS:
            (late if quiet <= QUIET_P99_MS else not_judged).append(kind)
        slow += [kind] if own_p99 > WANTED_P99_MS else []
    longest = max(max([max(one.during, default=float("inf")), *one.after]) for one in flooded.values())
    result = judge(
        "; ".join(measured),
        another_user_is_served=longest < MAX_WAIT_S,
        p99_is_below_50_ms=not late,
        p99_of_the_schedulers_own_time_is_below_50_ms=not slow,
    )
    result.not_judged = tuple(f"p99 of {kind}: the machine was busy without it" for kind in not_judged)
    return result


def _p99_ms(waits: list[float]) -> float:
    """Infinite if there was no turn at all."""
    return 1000 * sorted(waits)[len(waits) * 99 // 100] if waits else float("inf")


def floods_of_messages(place: Path, seconds: float) -> Result:
    """4: registered clients that send as much as they can."""
    return _floods(place, seconds / len(FLOODED), FLOODED)


def floods_of_connections(place: Path, seconds: float) -> Result:
    """13: connections, registrations and frames that are none."""
    return _floods(place, seconds / 3, CONNECTING)


def hostile_peers(place: Path, seconds: float) -> Result:
    """14: peers that send PINGs, do not read, or pass descriptors whose close takes long."""
    return _floods(place, seconds / 3, HOSTILE)


def pieces_of_frames(place: Path, seconds: float) -> Result:
    """14: peers that send half a frame and then nothing, no byte or a single one at a time, or are stopped (SIGSTOP)
    again and again in the middle of a frame."""
    return _floods(place, seconds / 3, PIECES)


def stopped_scheduler(place: Path, seconds: float) -> Result:
    """5: the scheduler is stopped while one program holds the card and another waits for it."""
    place.mkdir()
    waits: list[float] = []
    silence_s = 2.0
    with Machine(place, *FAST[:3]) as machine:
        silence_ms = str(round(1000 * silence_s))
        holder, waiter = (machine.client(9 * GIB, NVSHARE_SILENCE_MS=silence_ms) for _ in range(2))
        end = time.monotonic() + seconds
        while not waits or time.monotonic() < end:
            holder.do("spin 1000 1")
            machine.daemon.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            waiter.do("spin 1000 1", timeout=60)
            waits.append(time.monotonic() - began)
            machine.daemon.process.send_signal(signal.SIGCONT)
            waiter.do("sync", timeout=60)
        machine.daemon.assert_alive()
        clients = len(machine.clients())
    measured = f"{len(waits)} times, the other program ran after {max(waits):.1f} s at most"
    return judge(measured, it_runs=max(waits) < 10 * silence_s, both_stay_registered=clients == 2)


def _waits_beside(stopped: Program, other: Program, seconds: float) -> list[float]:
    """How long each of the other's calls took while one program was stopped (Ctrl-Z)."""
    stopped.process.send_signal(signal.SIGSTOP)
    waits: list[float] = []
    for _ in until(seconds):
        began = time.monotonic()
        other.do("spin 1000 1", timeout=60)
        other.do("sync", timeout=60)
        waits.append(time.monotonic() - began)
    stopped.process.send_signal(signal.SIGCONT)
    return waits


def stopped_holder(place: Path, seconds: float) -> Result:
    """6: a program that holds the card is stopped. It costs the other one a quantum and a grace time, once."""
    place.mkdir()
    with Machine(place, *FAST) as machine:
        holder, other = (machine.client(9 * GIB) for _ in range(2))
        holder.do("spin 1000 1")
        waits = _waits_beside(holder, other, QUANTUM_S + GRACE_S + max(seconds, 2 * (QUANTUM_S + GRACE_S)))
        holder.do("spin 1000 1", timeout=60)
        machine.daemon.assert_alive()
    late = [wait for wait in waits if wait > MAX_LATE_S]
    measured = (
        f"{len(waits)} calls of the other program, {len(late)} took longer than {MAX_LATE_S} s: {max(waits):.1f} s"
    )
    return judge(measured, it_costs_one_turn_only=len(late) <= 1)


def stopped_waiter(place: Path, seconds: float) -> Result:
    """5: a program that waits for the card is stopped. It costs the other one a turn at most, and goes on later."""
    place.mkdir()
    with Machine(place, *FAST) as machine:
        holder, waiter = (machine.client(9 * GIB) for _ in range(2))
        holder.do("spin 1000 1")
        waiter.say("spin 1000 1")
        assert waiter.waits()
        waits = _waits_beside(waiter, holder, QUANTUM_S + GRACE_S + max(seconds, 2 * (QUANTUM_S + GRACE_S)))
        has_run = waiter.answer(timeout=60)[0] == "0"
        machine.daemon.assert_alive()
    late = [wait for wait in waits if wait > MAX_LATE_S]
    measured = f"{len(waits)} calls of the holder, {len(late)} took longer than {MAX_LATE_S} s: {max(waits):.1f} s"
    return judge(measured, it_costs_one_turn_only=len(late) <= 1, it_runs_when_it_is_continued=has_run)


def cancelled_threads(place: Path, seconds: float) -> Result:
    """11: threads that are cancelled in the middle of calls while the lock comes and goes."""
    place.mkdir()
    end = time.monotonic() + seconds
    drops, wrong = 0, ""
    for kind in ("deferred", "asynchronous"):
        environment = {"LD_LIBRARY_PATH": str(NULL_DRIVER), "NVSHARE_SOCKET": str(place / "s")}
        with FakeScheduler(place / "s") as scheduler, Programs(place, environment) as programs:
            restless = Restless(scheduler, seed=7)
            enough_at = end - (seconds / 2 if kind == "deferred" else 0)
            done = programs.run_until(lambda at=enough_at: time.monotonic() > at, CHECKS / "lib_cancel", kind)  # type: ignore[misc]
            drops += restless.drops
            wrong += done.stdout + done.stderr if done.returncode else ""
    return Result(f"the lock was taken back {drops} times", wrong)


LOADS: dict[str, tuple[str, Load]] = {
    "4": ("floods of messages", floods_of_messages),
    "5": ("a stopped scheduler", stopped_scheduler),
    "5b": ("a stopped waiter", stopped_waiter),
    "6": ("a stopped holder", stopped_holder),
    "11": ("cancelled threads", cancelled_threads),
    "13": ("floods of connections", floods_of_connections),
    "14": ("hostile peers", hostile_peers),
    "14b": ("pieces of frames", pieces_of_frames),
}
