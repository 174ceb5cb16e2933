"""The input of `nvshare simulate` (sizes, jobs) as values, and its results as text or JSON."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from nvshare.quantity import QuantityError, amount, parse_bytes
from nvshare.schedsim import mixes, picture, thesis
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Ended, Outcome
from nvshare.schedsim.merits import Merits, merits
from nvshare.schedsim.replay import Replayed

JOB = re.compile(r"([^:/]+)(?:/([^:/]+))?:([\d.]+)/([\d.]+)x(\d+)(?:@([\d.]+))?((?:,\w+=[^,]+)*)")
SYNTAX = "MEMORY[/USED]:GPU/CPUxCOUNT[@ARRIVAL][,host=SIZE][,limit=SIZE@SECONDS...]"
LIMIT = re.compile(r"(.+)@([\d.]+)")
MAX_COUNT = 100_000
"""Repetitions of one job: a simulation of more takes minutes."""
BEST = (1772, 1128, 2043, 1380)
"""The best measured cell of each column: the goal for the default mode."""


def parse_job(index: int, text: str) -> Job:
    """`12Gi:16/2x40@30`, or `12Gi/2Gi:16/2x40` if it uses 2Gi of them, or `12Gi:16/2x40,host=4Gi`.
    `12Gi:16/2x40,limit=8Gi@60,limit=0@90`: its limit 60 and 90 s after its arrival."""
    match = JOB.fullmatch(text)
    if match is None:
        raise ValueError(f"a job is {SYNTAX}, like 12Gi:16/2x40, not {text!r}")
    memory, part, gpu, cpu, count, arrives, more = match.groups()
    size = _memory_of_job(memory, text)
    used = _memory_of_job(part, text) if part else None
    if used is not None and not 0 < used <= size:
        raise ValueError(f"a job uses some of its memory and no more than it has: {text!r}")
    if not size or not float(gpu) or not int(count):
        raise ValueError(f"a job without memory or without work on the GPU: {text!r}")
    if int(count) > MAX_COUNT:
        raise ValueError(f"a job has at most {MAX_COUNT} repetitions, not {count}: {text!r}")
    phases = ((float(gpu), float(cpu)),) * int(count)
    host, limits = _more_of_job(more, text)
    job = Job(f"job{index}", size, 0.0, phases, arrives_s=float(arrives or 0), working_set=used)
    return replace(job, host_memory=host, limits=limits)


def _more_of_job(more: str, text: str) -> tuple[int | None, tuple[tuple[float, int], ...]]:
    """Its memory on the host, and its limits by time."""
    host: int | None = None
    limits: list[tuple[float, int]] = []
    for word in more.split(",")[1:]:
        name, _, value = word.partition("=")
        limit = LIMIT.fullmatch(value)
        if name == "host":
            host = _memory_of_job(value, text)
        elif name == "limit" and limit is not None:
            limits.append((float(limit[2]), _memory_of_job(limit[1], text)))
        else:
            raise ValueError(f"a job is {SYNTAX}, like 12Gi:16/2x40, not {text!r}")
    return host, tuple(sorted(limits, key=lambda limit: limit[0]))


def _memory_of_job(memory: str, text: str) -> int:
    try:
        return parse_bytes(memory)
    except QuantityError as error:
        raise ValueError(f"the memory of the job {text!r}: {memory!r} {error}") from None


def thesis_lines(
    parameters: thesis.Parameters, table: dict[str, tuple[float, ...]], ours: dict[str, Outcome], mode: str
) -> list[str]:
    errors = thesis.errors(table)
    lines = ["Two jobs on a Tesla P100: simulated seconds (difference from the measured ones)", ""]
    lines.append(f"{'':28s}" + "".join(f"{kind.name:>18s}" for kind in thesis.KINDS))
    for row, cells in table.items():
        shown = [
            f"{cell:8.0f} ({errors[row, kind.name]:+6.1%})" for kind, cell in zip(thesis.KINDS, cells, strict=True)
        ]
        lines.append(f"{row:28s}" + "".join(f"{text:>18s}" for text in shown))
    made = "".join(f"{outcome.makespan_s:8.0f}{'':10s}" for outcome in ours.values())
    lines += ["", f"{f'our scheduler, {mode}':28s}{made}"]
    lines.append(f"{'best measured':28s}" + "".join(f"{best:8d}{'':10s}" for best in BEST))
    good = sum(abs(error) <= thesis.TOLERANCE for error in errors.values())
    fitted = ", ".join(f"{name} {value:g}" for name, value in asdict(parameters).items())
    lines += ["", f"{good} of {len(errors)} cells within {thesis.TOLERANCE:.0%}. Fitted: {fitted}.", ""]
    for name, outcome in ours.items():
        lines += [f"two {name}, the first 300 s", *picture.lanes(cut(outcome, 300), until_s=300)[:-1]]
    return [*lines, f"{'':12s} {picture.LEGEND}"]


def cut(outcome: Outcome, until_s: float) -> Outcome:
    """Only the beginning, for a picture."""
    kept = tuple(
        replace(stretch, end=min(stretch.end, until_s)) for stretch in outcome.stretches if stretch.begin < until_s
    )
    return replace(outcome, stretches=kept)


def thesis_values(
    parameters: thesis.Parameters, table: dict[str, tuple[float, ...]], ours: dict[str, Outcome], mode: str
) -> dict[str, Any]:
    errors = thesis.errors(table)
    return {
        "parameters": asdict(parameters),
        "columns": [kind.name for kind in thesis.KINDS],
        "measured": thesis.MEASURED,
        "simulated": table,
        "within_tolerance": sum(abs(error) <= thesis.TOLERANCE for error in errors.values()),
        "cells": len(errors),
        "ours": {"mode": mode, **{name: asdict(replace(outcome, stretches=())) for name, outcome in ours.items()}},
    }


def outcome_lines(outcome: Outcome) -> list[str]:
    lines = [f"{'job':12s}{'finished':>10s}{'alone':>10s}{'slowdown':>10s}{'longest wait':>14s}{'turns':>7s}"]
    lines += [
        f"{job.name:12s}{job.finished_s:8.0f} s{job.alone_s:8.0f} s{_slowdown(job):>10s}"
        f"{job.longest_wait_s:12.1f} s{job.turns:7d}{_remark(job)}"
        for job in outcome.jobs
    ]
    moved = (
        f"{outcome.moved_gb:.0f} GB moved in, {outcome.pushed_gb:.0f} GB out in bulk, GPU busy {outcome.gpu_busy:.0%}"
    )
    return [*lines, f"all done after {outcome.makespan_s:.0f} s; {moved}"]


def _slowdown(job: Ended) -> str:
    """Only a job that has done its work has one."""
    return job.end if job.end in ("refused", "killed") else f"{job.slowdown:.2f}"


def _remark(job: Ended) -> str:
    if job.end == "refused":
        return "  refused: the card has less memory for it"
    if job.end == "killed":
        return "  killed: more of its memory was on the host than it may have there"
    if job.blocked_by:
        return f"  waited: the host cannot take all memory of {job.blocked_by}"
    if job.most_held:
        return f"  kept up to {amount(job.most_held)} on the host because of its limit"
    return ""


def mix_line(one: mixes.Comparison, pairs: Sequence[tuple[str, str]]) -> str:
    """The makespan of the first pair's contender, and every pair's ratio."""
    name = pairs[0][0]
    ours = one.outcomes[name]
    ratios = "".join(f"   {mixes.ratio(one, *pair):5.3f} {_pair_text(pair, name)}" for pair in pairs)
    times = f"{name} {ours.makespan_s:7.0f} s{ratios}"
    return f"seed {one.seed:4d}  {len(ours.jobs):2d} jobs  {times}   longest wait {ours.longest_wait_s:5.0f} s"


def _pair_text(pair: tuple[str, str], known: str) -> str:
    return f"of {pair[1]}" if pair[0] == known else f"{pair[0]} of {pair[1]}"


def mixes_values(compared: Sequence[mixes.Comparison], pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "mixes": [
            {**asdict(one), "ratios": [{"name": a, "against": b, "ratio": mixes.ratio(one, a, b)} for a, b in pairs]}
            for one in compared
        ],
        "duels": [mixes.duel(compared, *pair) for pair in pairs],
        "merits": [merits(compared, name) for name in _names(pairs)],
    }


def mixes_lines(compared: Sequence[mixes.Comparison], pairs: Sequence[tuple[str, str]]) -> list[str]:
    duels = [_duel_line(mixes.duel(compared, *pair), len(compared)) for pair in pairs]
    return ["", *duels, "", *merits_lines([merits(compared, name) for name in _names(pairs)])]


def _names(pairs: Sequence[tuple[str, str]]) -> Sequence[str]:
    return tuple(dict.fromkeys(name for pair in pairs for name in pair))


def merits_lines(found: Sequence[Merits]) -> list[str]:
    head = (
        f"{'':14s}{'slowdown':>10s}{'makespan':>12s}{'bursts':>10s}{'95 %':>10s}{'longest wait':>14s}{'fairness':>10s}"
    )
    return [head, *map(_merits_line, found)]


def _duel_line(found: mixes.Duel, count: int) -> str:
    which = f": seeds {', '.join(map(str, found.worse))}" if found.worse else ""
    return (
        f"{found.name}'s makespan against {found.against}'s: geometric mean {found.mean:.3f},"
        f" worst {found.worst:.3f} (seed {found.worst_seed}),"
        f" {len(found.worse)} of {count} worse by more than {mixes.WORSE - 1:.0%}{which}"
    )


def _merits_line(found: Merits) -> str:
    bursts = [_seconds(found.mean_response_s), _seconds(found.p95_response_s)]
    fairness = "-" if found.least_fairness is None else f"{found.least_fairness:.3f}"
    return (
        f"{found.name:14s}{found.slowdown:10.2f}{found.makespan_s:10.0f} s{bursts[0]:>10s}{bursts[1]:>10s}"
        f"{found.longest_wait_s:12.0f} s{fairness:>10s}"
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def replay_lines(played: Replayed) -> list[str]:
    over = f"; {played.skipped} steps before the first start of a daemon skipped" if played.skipped else ""
    if played.difference is None:
        return [f"{played.steps} steps of {played.daemons} daemon(s): the core gives the same actions{over}"]
    difference = played.difference
    step = difference.step
    return [
        f"line {difference.line} differs, after {played.steps - 1} equal steps{over}",
        f"  now    {step.now}",
        f"  event  {step.event}",
        *(f"  journal  {action}" for action in step.actions),
        *(f"  replay   {action}" for action in difference.ours),
    ]
