"""What each rule and constant of mode `balanced` is for: python tools/ablation.py --kind interactive --count 40

Each variant of the mode runs on the same random mixes as the mode itself, and becomes a row of a Markdown table.
Figures are those of the variant by those of the mode, as a geometric mean over the mixes ± its standard error.

makespan        until the last job has ended
slowdown        geometric mean over the jobs of a mix
bursts          mean response of a mix's bursts
longest wait    mean of each mix's longest wait, and the longest of all, in seconds
worse           mixes more than 5 % worse than the better of the original and auto

docs/decisions/0016-mode-balanced.md has the results."""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from math import exp, log
from statistics import fmean, stdev
from typing import Any

from msgspec.structs import replace

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes import balanced, habits, learning, mode, move_cost
from nvshare.core.modes.balanced import Balanced
from nvshare.core.modes.habits import Habits
from nvshare.core.modes.mode import Left
from nvshare.core.modes.move_cost import MoveCost
from nvshare.core.turns.seat import Seat
from nvshare.record import Record
from nvshare.schedsim import mixes
from nvshare.schedsim.distributions import DISTRIBUTIONS, Scene, make_mix
from nvshare.schedsim.machine import Outcome

WORSE = 1.05
DUTY = 0.6
"""Of a usual program; for it all powers of the duty give the same lag."""
Change = tuple[object, str, Any]
"""A module or class, the name of its attribute, and the value that it has in the variant."""

_idle_preempt_time = mode.Mode._idle_preempt_time
_visit_ns = Balanced._visit_ns


def _cost_of_whole_switch(self: Balanced, seat: Seat, evicted: int, left: Left) -> int:
    return evicted * self.habits.cost.most_ns_per_gib // GIB


def _visit_at_cost_only(self: Balanced, head: Seat, move_ns: int) -> int:
    """A visitor may come before the holder has worked as long as the visitor did."""
    habit = self.habits.of(head)
    if habit is None or not habit.released_without_work:
        return _visit_ns(self, head, move_ns)
    return balanced.VISIT_TO_COST * (2 * self.evicted_bytes(head) * move_ns // GIB - (head.usual_pause or 0))


def _newcomers_only(self: Balanced, head: Seat, move_ns: int) -> int:
    return _visit_ns(self, head, move_ns) if self.habits.of(head) is None else self.rule.most_ns


def _visitors_only(self: Balanced, head: Seat, move_ns: int) -> int:
    return self.rule.most_ns if self.habits.of(head) is None else _visit_ns(self, head, move_ns)


def _pauses_never_pay(self: mode.Mode, seat: Seat, cost: int) -> int:
    """An idle holder is left alone until it has been idle for the cost of the switch, whatever its usual pause."""
    assert seat.idle_since is not None
    return seat.idle_since if cost <= self._settings.cheap_switch_ns else seat.idle_since + cost


def _idle_costs(factor: float) -> Callable[[mode.Mode, Seat, int], int]:
    return lambda self, seat, cost: _idle_preempt_time(self, seat, round(factor * cost))


def _no_patience(self: mode.Mode, seat: Seat, cost: int) -> int:
    assert seat.idle_since is not None
    return seat.idle_since


def _until_the_end(self: mode.Mode, seat: Seat, cost: int) -> int:
    return 1 << 62


def _duty_to_the(power: float) -> Callable[[Balanced, Seat], int]:
    def lag_ns(self: Balanced, seat: Seat) -> int:
        habit = self.habits.of(seat)
        if habit is None:
            return 0
        lag: int = round(balanced.LAG_FACTOR * DUTY * (habit.duty / DUTY) ** power * habit.last_turn)
        return min(lag, balanced.LAG_TO_HELD * seat.held_total, self.longest_lag_ns)

    return lag_ns


def _longest_lag(seconds: int) -> property:
    return property(lambda self: seconds * SECOND)


def _known_from_the_start(self: MoveCost) -> bool:
    return True


def _unweighted(self: MoveCost, moved_bytes: int, extra_ns: int, work_ns: int) -> None:
    _note(self, moved_bytes, extra_ns, SECOND)


_note = MoveCost.note


def _shortest_first(self: mode.Mode, now: int, staying: Iterable[Seat]) -> list[Seat]:
    return sorted(staying, key=lambda seat: -seat.held_since)


class Variant(Record, frozen=True):
    name: str
    changes: tuple[Change, ...] = ()
    rule: tuple[tuple[str, int], ...] = ()
    """Settings of the quantum, and those of the scheduler."""
    settings: tuple[tuple[str, int], ...] = ()


def _of(what: str, where: object, name: str, *values: Any) -> Iterator[Variant]:
    """One constant with other values."""
    shown = getattr(where, name)
    for value in values:
        yield Variant(f"{what} {shown:g} → {value:g}", ((where, name, value),))


def _seconds(what: str, where: object, name: str, *values_s: float) -> Iterator[Variant]:
    shown = getattr(where, name) / SECOND
    for value in values_s:
        yield Variant(f"{what} {shown:g} s → {value:g} s", ((where, name, round(value * SECOND)),))


def _longest_turn(seconds: int) -> Variant:
    """The longest lag stays, although the same setting bounds it."""
    lag = (Balanced, "longest_lag_ns", _longest_lag(300))
    return Variant(f"longest turn 300 s → {seconds} s", (lag,), rule=(("most_ns", seconds * SECOND),))


def _off(what: str, where: object, name: str, value: Any) -> Variant:
    return Variant(what, ((where, name, value),))


VARIANTS: tuple[Variant, ...] = (
    # 1. The turn.
    *_of("turn to move", balanced, "TURN_TO_MOVE", 0, 12, 50),
    Variant("seconds per GiB 5 → 1", rule=(("multiplier", 1),)),
    Variant("seconds per GiB 5 → 10", rule=(("multiplier", 10),)),
    *_seconds("least turn", balanced, "LEAST_NS", 1, 4, 10),
    _longest_turn(150),
    _longest_turn(600),
    # 2. Newcomers and visitors.
    *_of("visit to cost", balanced, "VISIT_TO_COST", 6, 24),
    _off("newcomers: no rule", Balanced, "_visit_ns", _visitors_only),
    _off("visitors: no rule", Balanced, "_visit_ns", _newcomers_only),
    _off("visitors: without their last work", Balanced, "_visit_ns", _visit_at_cost_only),
    _off("running visitors may be interrupted", Balanced, "_finish_ns", lambda self, head, running: 0),
    *_of("visits may differ", balanced, "VISITS_MAY_DIFFER", 1, 4),
    # 3. Idle holders.
    _off("idle: the whole switch counts", Balanced, "_loss_ns", _cost_of_whole_switch),
    _off("idle: usual pauses do not count", Balanced, "_idle_preempt_time", _pauses_never_pay),
    _off("idle: leave at once", Balanced, "_idle_preempt_time", _no_patience),
    _off("idle: stay to the end of the turn", Balanced, "_idle_preempt_time", _until_the_end),
    _off("idle: half the switch", Balanced, "_idle_preempt_time", _idle_costs(0.5)),
    _off("idle: twice the switch", Balanced, "_idle_preempt_time", _idle_costs(2)),
    Variant("idle: cheap switch 50 ms → 0", settings=(("cheap_switch_ns", 0),)),
    Variant("idle: cheap switch 50 ms → 200 ms", settings=(("cheap_switch_ns", SECOND // 5),)),
    # 4. The lag.
    *_of("lag", balanced, "LAG_FACTOR", 0, 10, 40),
    *_of("lag to all turns", balanced, "LAG_TO_HELD", 1, 1000),
    _off("lag: the duty does not count", Balanced, "lag_ns", _duty_to_the(0)),
    _off("lag: the square of the duty", Balanced, "lag_ns", _duty_to_the(2)),
    _off("longest lag 300 s → 150 s", Balanced, "longest_lag_ns", _longest_lag(150)),
    _off("longest lag 300 s → 600 s", Balanced, "longest_lag_ns", _longest_lag(600)),
    # 5. Half of a turn is work.
    *_of("least turn to load", balanced, "LEAST_TO_LOAD", 0, 1, 4),
    # At a switch.
    _off("at a switch the latest leaves first", Balanced, "leaving_order", _shortest_first),
    # What is learned.
    _off("the first load does not teach the cost", Balanced, "compares_first", False),
    _off("the link is no first guess", learning.Learning, "_link", lambda self: 0),
    _off("until a cost is known, the first guess counts", MoveCost, "is_known", property(_known_from_the_start)),
    _off("a turn that began in another's load teaches too", Habits, "_is_loading", lambda self, now, seat: False),
    _off("samples of the cost count alike", MoveCost, "note", _unweighted),
    *_of("kept of samples", move_cost, "KEPT", 0.9, 1),
    *_of("first guess", move_cost, "FIRST_GUESS_S_PER_GIB", 0.05, 1),
    *_of("most seconds that a GiB can cost", move_cost, "MAX_S_PER_GIB", 2.0, 10.0),
    *_of("kept of measured moves", move_cost, "KEPT_MEASURED", 0.5, 0.95),
    *_of("kept of habits", habits, "KEPT", 0.8, 0.95),
    *_seconds("guess of duty counts", habits, "GUESS_NS", 0.1, 20),
)  # fmt: skip


class Task(Record, frozen=True):
    scene: Scene
    seed: int
    variant: int | None
    """None: the original, auto, and the mode itself."""


def run(task: Task) -> tuple[Outcome, ...]:
    mix = make_mix(task.seed, task.scene)
    if task.variant is None:
        return tuple(_run(mix, contender) for contender in (mixes.FCFS_30, mixes.AUTO, mixes.BALANCED))
    variant = VARIANTS[task.variant]
    rule = replace(mixes.BALANCED.settings.quantum, **dict(variant.rule))
    settings = replace(mixes.BALANCED.settings, quantum=rule, **dict(variant.settings))
    with ExitStack() as stack:
        for change in variant.changes:
            stack.enter_context(_changed(*change))
        return (_run(mix, replace(mixes.BALANCED, settings=settings)),)


def _run(mix: mixes.Mix, contender: mixes.Contender) -> Outcome:
    return replace(mixes.run(mix, contender), stretches=())


@contextmanager
def _changed(where: object, name: str, value: Any) -> Iterator[None]:
    missing = object()
    before = vars(where).get(name, missing)
    setattr(where, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(where, name)
        else:
            setattr(where, name, before)


Known = list[tuple[Outcome, ...]]
"""Of each mix, what the original, auto and the mode made of it."""


def row(name: str, outcomes: Sequence[Outcome], known: Known) -> str:
    pairs = [(one, ours) for one, (_, _, ours) in zip(outcomes, known, strict=True)]
    worse = sum(
        one.makespan_s > WORSE * min(a.makespan_s, b.makespan_s) for one, (a, b, _) in zip(outcomes, known, strict=True)
    )
    waits = [one.longest_wait_s for one in outcomes]
    cells = [
        _ratio([one.makespan_s / ours.makespan_s for one, ours in pairs]),
        _ratio([_slowdown(one) / _slowdown(ours) for one, ours in pairs]),
        _ratio([_response(one) / _response(ours) for one, ours in pairs if _response(ours)]),
        f"{fmean(waits):.0f} s, {max(waits):.0f} s",
        str(worse),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _ratio(values: list[float]) -> str:
    if len(values) < 2 or set(values) == {1.0}:
        return "-" if not values else "1"
    logs = [log(value) for value in values]
    return f"{exp(fmean(logs)):.3f} ± {stdev(logs) / len(logs) ** 0.5:.3f}"


def _slowdown(outcome: Outcome) -> float:
    return mixes.geometric_mean([job.slowdown for job in outcome.jobs])


def _response(outcome: Outcome) -> float:
    """Mean of all bursts; 0 if there are none."""
    responses = [response for job in outcome.jobs for response in job.responses_s]
    return fmean(responses) if responses else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=list(DISTRIBUTIONS), default="interactive")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--link", type=float, help="GB/s of bulk moves; by default page faults move memory")
    parser.add_argument("--move-cost", type=float, help="seconds to move a GiB by page faults")
    parser.add_argument("--only", default="", help="variants whose name contains this")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    link = None if options.link is None else options.link * 1e9
    scene = Scene(options.kind, options.move_cost, link)
    task = partial(Task, scene)
    seeds = range(options.first, options.first + options.count)
    with ProcessPoolExecutor(options.jobs) as pool:
        known = list(pool.map(run, [task(seed, None) for seed in seeds]))
        print("| changed | makespan | slowdown | bursts | longest wait: mean, of all | worse |")
        print("|---|---|---|---|---|---|")
        print(row("nothing", [ours for _, _, ours in known], known), flush=True)
        for number, variant in enumerate(VARIANTS):
            if options.only in variant.name:
                outcomes = [one for (one,) in pool.map(run, [task(seed, number) for seed in seeds])]
                print(row(variant.name, outcomes, known), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
