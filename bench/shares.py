"""Shares of a GPU's time: the real library, scheduler and processes on a simulated P100 of natural speed.

    make -C native bench
    python -m bench shares

All kernels take KERNEL_MS of the card, so the card's own trace says what each program had: the number of its kernels
that ended in the observed time. The programs always have work, except for one in the row about idle shares.

The rows about weights and priorities report a goal, and a missed goal fails nothing: work that a program has queued
when it is held back still counts for it, and page faults are billed like work.

| row | wanted |
|---|---|
| core limit alone | 25, 50, 75 percent, within 3 % of that |
| two core limits | 30 and 60 percent side by side, within 5 % |
| weights | 1 : 2 : 5 within 5 %, side by side (2 GiB each) |
| weights, turns | the same in turns of 1 s, 9 GiB each, over 360 s, from 120 s on |
| weights, cheap turns | the same in turns of 1 s over 180 s: 1.5 GiB each on a card of 4 GiB |
| idle shares | weights 1 : 9, the heavy one has no work: the light one has the GPU |
| a change | 75 to 25 percent: from one second after the order on, within 10 % over 10 s |
| priority | a program of high priority beside a batch job that fills the card: its first kernel within 0.6 s |"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from bench.answers import MOST_ANSWER_S, Answer, answered
from bench.cards import GIB, WARM_UP_S, Card, Program
from bench.scheduler import Scheduler, scheduler
from bench.verdict import goal
from nvshare.admin import GetStatus, Request, SetCoreLimit

OBSERVED_S = 60.0
LONG_WARM_UP_S = 10.0
"""Until programs that started one after the other have what their weights say."""
TURNS_WARM_UP_S = 120.0
"""The first use of memory causes page faults, and these are billed. After this time their part no longer matters."""
Row = dict[str, Any]


def observed(
    programs: Sequence[Program],
    *options: str,
    seconds: float = OBSERVED_S,
    then: Callable[[Scheduler], None] | None = None,
    warm_up_s: float = WARM_UP_S,
    memory: int = 16 * GIB,
) -> list[float]:
    """Percent of the card's time that each program had: from the warm-up on, or from a second after `then`."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        card = Card(Path(name), memory)
        daemon = stack.enter_context(scheduler(Path(name), "--nvml", "on", *options, environment=card.bare))
        pids = card.start(stack, daemon, programs)
        time.sleep(warm_up_s)
        if then is not None:
            then(daemon)
            time.sleep(1)
        begin = time.monotonic_ns()
        time.sleep(seconds + 0.2)
        return card.percent(pids, begin, seconds)


def ask(daemon: Scheduler, request: Request) -> Any:
    """A request of the operator, as nvsharectl makes it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(daemon.operator_socket))
        connection.sendall(msgspec.json.encode(request) + b"\n")
        return msgspec.json.decode(connection.makefile("rb").readline())


def worst(got: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest error, as a part of what is wanted."""
    return max(abs(one - want) / want for one, want in zip(got, wanted, strict=True))


def shares_row(what: str, got: Sequence[float], wanted: Sequence[float], within: float) -> Row:
    error = worst(got, wanted)
    shown = " ".join(f"{one:.2f}" for one in got)
    row: Row = {"bench": "shares", "what": what, "percent": shown, "wanted": " ".join(f"{it:g}" for it in wanted)}
    return row | {"error": round(error, 4), "within": within, "ok": error <= within}


def core_limits(seconds: float = OBSERVED_S) -> Iterator[Row]:
    for percent in (25, 50, 75):
        got = observed([Program(NVSHARE_GPU_CORE_LIMIT=percent)], seconds=seconds)
        yield shares_row(f"core limit of {percent} % alone", got, [percent], 0.03)
    got = observed([Program(NVSHARE_GPU_CORE_LIMIT=it) for it in (30, 60)], seconds=seconds)
    yield shares_row("core limits of 30 and 60 %", got, [30, 60], 0.05)


WEIGHTS, PARTS = (100, 200, 500), (12.5, 25, 62.5)
FAIR = ("--policy", "fair")
TURNS = ("--switch-time-mode", "fixed", "--switch-time-fixed", "1")


def normalised(got: Sequence[float]) -> list[float]:
    """Without the time in which nobody computes, as at switches."""
    return [100 * one / sum(got) for one in got]


def weights(seconds: float = OBSERVED_S) -> Iterator[Row]:
    """Side by side a program may be ahead by what it had queued, about 0.4 s, when the observation begins and ends.
    In turns it may be ahead by a whole turn: the lightest has one of eight, so 60 s are right only within 13 %."""
    programs = [Program(NVSHARE_WEIGHT=it) for it in WEIGHTS]
    got = observed(programs, *FAIR, seconds=seconds, warm_up_s=LONG_WARM_UP_S)
    row = shares_row("weights 1 : 2 : 5 side by side", normalised(got), PARTS, 0.05)
    yield row | goal(row.pop("ok")) | {"busy": round(sum(got), 1)}
    for size, memory, warm_up_s, long in (
        (3 * GIB // 2, 4 * GIB, LONG_WARM_UP_S, 3),
        (9 * GIB, 16 * GIB, TURNS_WARM_UP_S, 6),
    ):
        programs = [Program(size=size, NVSHARE_WEIGHT=it) for it in WEIGHTS]
        got = observed(programs, *FAIR, *TURNS, seconds=long * seconds, warm_up_s=warm_up_s, memory=memory)
        row = shares_row(f"weights 1 : 2 : 5 in turns, {size / GIB:g} GiB each", normalised(got), PARTS, 0.05)
        yield row | goal(row.pop("ok")) | {"busy": round(sum(got), 1)}


def idle_shares(seconds: float = 10.0) -> Row:
    """The heavy one works for one burst, and then pauses for longer than is observed."""
    programs = [Program(NVSHARE_WEIGHT=100), Program(NVSHARE_WEIGHT=900, pause_ms=1_000_000)]
    got = observed(programs, *FAIR, seconds=seconds)
    return shares_row("weights 1 : 9, the heavy one idle", got[:1], [100], 0.05)


def a_change(seconds: float = 10.0) -> Row:
    def lower(daemon: Scheduler) -> None:
        (client,) = ask(daemon, GetStatus())["node"]["clients"]
        ask(daemon, SetCoreLimit(f"{client['id']:04x}", 25))

    got = observed([Program()], seconds=seconds, then=lower)
    return shares_row("a core limit of 25 %, from 1 s after the order on", got, [25], 0.10)


def rows() -> Iterator[Row]:
    yield from core_limits()
    yield from weights()
    yield idle_shares()
    yield a_change()
    beside = "first kernel of high priority beside a batch job"
    yield answer_row(beside, answered())
    yield answer_row(f"{beside} with kernels of 0.5 s", answered(used=26, kernel_ms=500))


def answer_row(what: str, answer: Answer) -> Row:
    return {"bench": "shares", "what": what, **answer.row()} | goal(answer.kernel_s <= MOST_ANSWER_S)
