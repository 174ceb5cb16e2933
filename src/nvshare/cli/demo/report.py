"""The results of the demonstration: a table, verdicts, a picture. Reads the traces of the simulated card; else pure."""

import itertools
import statistics
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from nvshare.cli.demo.picture import Panel, PictureLane, Stretch
from nvshare.cli.demo.plan import SLOW_FAULTS, Plan
from nvshare.cli.demo.testbed import JobResult, PhaseResult
from nvshare.core.model import GIB
from nvshare.record import Record
from nvshare.simgpu.switches import switch_costs
from nvshare.simgpu.trace import Kind, ProcessTrace, merge, read_traces
from nvshare.simgpu.trace import Record as TraceRecord

WORK = (Kind.KERNEL, Kind.COPY, Kind.MEMSET)
GAP_S = 0.6
"""Shorter gaps in a program's work are not drawn, in seconds of the card."""
STALL_S = 0.2
"""Work that waits longer for memory is drawn by itself, in seconds of the card."""
FIRST_SWITCHES = 2
"""Not counted: each program touches its memory for the first time."""

KINDS = {
    "steady": "GPU always busy",
    "bursty": "GPU busy half of the time",
    "small": "small programs",
    "slow": f"GPU always busy, page faults of {SLOW_FAULTS}B/s",
}


class Verdict(Record, frozen=True):
    """One thing that the demonstration shows. Only `FAIL` makes the command fail."""

    text: str
    result: Literal["ok", "slow", "FAIL"]


class Line(Record, frozen=True):
    """A row of the table. Times are the card's seconds."""

    group: str
    title: str
    seconds: float | None
    """None: it did not end, and the end cannot be estimated."""
    outcome: str
    """What went wrong; empty: all programs are done."""
    compared: str
    """With one after another."""


def lines(plan: Plan, results: Mapping[str, PhaseResult]) -> list[Line]:
    made = []
    for key, result in results.items():
        kind = key.partition("-")[0]
        serial = results.get(f"{kind}-serial")
        failed = next((job for job in result.jobs if job.error), None)
        if failed is not None:
            made.append(Line(_group(plan, result), result.phase.title, None, f"{failed.name}: {failed.error}", ""))
            continue
        whole = result.projected_s
        outcome = ""
        if not result.is_finished:
            came = sum(job.done for job in result.jobs) / len(result.jobs)
            outcome = f"stopped after {result.seconds / plan.scale:.0f} s: {_percent(came)} done"
        seconds = None if whole == float("inf") else whole / plan.scale
        compared = _compared(serial.seconds, whole) if serial and seconds and serial is not result else ""
        made.append(Line(_group(plan, result), result.phase.title, seconds, outcome, compared))
    return made


def _compared(serial_s: float, whole_s: float) -> str:
    """A time against that of one after another, as the README says it."""
    ratio = max(serial_s / whole_s, whole_s / serial_s)
    text = estimate(ratio) if ratio >= 100 else f"{ratio:.2f}"
    return f"{text} times as {'fast' if whole_s <= serial_s else 'long'}"


def estimate(value: float) -> str:
    """An estimate from little progress, in two digits: another run gives another one."""
    return f"{float(f'{value:.2g}'):,.0f}"


def _percent(part: float) -> str:
    """How much of the work is done; a small part in one digit."""
    return (
        f"{100 * part:.0f} %" if part >= 0.01 else f"about {100 * part:.1g} %" if part >= 1e-4 else "less than 0.01 %"
    )


def progress_note(job: JobResult) -> str:
    """How far a program came in the end; a failed one says why."""
    return job.error or ("done" if job.done >= 1 else f"{_percent(job.done)} done, stopped")


def switches(results: Mapping[str, PhaseResult]) -> dict[str, float]:
    """What a switch cost in each phase that has some, the median, in seconds of the simulated card."""
    shared = [(key, one.directory) for key, one in results.items() if one.phase.is_shared and one.directory]
    costs = {key: switch_costs(read_traces(directory)) for key, directory in shared}
    return {key: statistics.median(found[FIRST_SWITCHES:] or found) for key, found in costs.items() if found}


def verdicts(plan: Plan, results: Mapping[str, PhaseResult], switch_s: Mapping[str, float]) -> list[Verdict]:
    """What the parts that were run should show, with the figures of this run. A figure below what is usual is reported
    and fails nothing: on a busy machine every program takes longer."""
    failed = [_failure(result, job) for result in results.values() for job in result.jobs if _has_failed(result, job)]
    if failed:
        return failed
    made = _steady(results) if "steady-serial" in results else []
    if "steady-shared" in switch_s:
        cost = switch_s["steady-shared"]
        ratio = cost / plan.link_s
        text = f"a switch between the big programs: {cost:.2f} s, {ratio:.2f}x what the link needs for what must move"
        made.append(_measured(text, ratio <= 1.25, "up to 1.25x"))
    for kind, text in (("bursty", "big programs, GPU busy half of the time"), ("small", "small programs side by side")):
        if f"{kind}-serial" in results:
            faster = results[f"{kind}-serial"].seconds / results[f"{kind}-shared"].seconds
            made.append(_measured(f"{text}: {faster:.2f}x as fast", faster > 1, "more than 1x"))
    if "slow-shared" in switch_s:
        in_bulk, by_faults = switch_s["slow-shared"], switch_s["slow-faults"]
        costs = f"by page faults {by_faults:.1f} s, in bulk {in_bulk:.2f} s, {by_faults / in_bulk:.0f}x less"
        text = f"a switch with page faults of {SLOW_FAULTS}B/s: {costs}"
        made.append(_measured(text, by_faults >= 5 * in_bulk, "at least 5x"))
    return made


def _steady(results: Mapping[str, PhaseResult]) -> list[Verdict]:
    turns, thrash, serial = results["steady-shared"], results["steady-unified"], results["steady-serial"]
    beats = thrash.projected_s / turns.seconds
    close = turns.seconds / serial.seconds
    faults = results["steady-faults"].seconds / serial.seconds
    text = f"{estimate(beats)}x" if beats != float("inf") else "thrashing made no progress"
    return [
        _measured(f"turns are faster than thrashing: {text}", beats >= 3, "at least 3x"),
        _measured(
            f"big programs, GPU always busy: {close:.2f}x the time of one after another", close <= 1.10, "up to 1.10x"
        ),
        _measured(f"the same, if page faults move memory instead of prefetches: {faults:.2f}x", faults > close, "more"),
    ]


def _measured(text: str, is_usual: bool, usual: str) -> Verdict:
    return Verdict(f"{text} (usual: {usual})", "ok" if is_usual else "slow")


def _has_failed(result: PhaseResult, job: JobResult) -> bool:
    """Plain CUDA must fail, and what thrashes is stopped; every other program must finish."""
    phase = result.phase
    return not phase.stops_at_failure and phase.stop_after_s is None and (bool(job.error) or job.done < 1)


def _failure(result: PhaseResult, job: JobResult) -> Verdict:
    reason = job.error or f"ended after {job.done:.0%} of its work"
    return Verdict(f"{job.name}, {result.phase.title}: {reason}", "FAIL")


def panels(plan: Plan, results: Mapping[str, PhaseResult]) -> tuple[Panel, ...]:
    """The picture's panels, one for each situation; lengths are the card's seconds."""
    made = []
    for result in results.values():
        if any(job.error for job in result.jobs) and result.phase.stops_at_failure:
            continue  # It failed before any work; the table says so.
        length = result.seconds / plan.scale
        stopped = "stopped" if result.phase.is_shared else "stopped while thrashing"
        text = f"{length:.0f} s" if result.is_finished else stopped
        title = f"{_group(plan, result)}: {result.phase.title}"
        made.append(Panel(title, text, length, _lanes(plan, result), is_cut=not result.is_finished))
    return tuple(made)


def _group(plan: Plan, result: PhaseResult) -> str:
    jobs = result.phase.jobs
    kind = KINDS[result.phase.key.partition("-")[0]]
    return f"{len(jobs)} x {jobs[0].memory / GIB:.3g} GiB on {plan.card / GIB:.3g} GiB, {kind}"


def _lanes(plan: Plan, result: PhaseResult) -> tuple[PictureLane, ...]:
    if result.directory is None:
        return tuple(_lifetime(job) for job in result.jobs)
    traces = {trace.pid: trace for trace in read_traces(result.directory)}
    left = min((trace.started_ns for trace in traces.values()), default=0)
    ruler = _Ruler(left, plan.scale * 1e9, round(plan.kernel_ms / 1000 * plan.scale * 1e9))
    return tuple(
        PictureLane(job.name, _stretches(traces[job.pid], left + round(job.end_s * 1e9), ruler))
        if job.pid in traces
        else PictureLane(job.name, ())
        for job in result.jobs
    )


class _Ruler(Record, frozen=True):
    """Where the picture begins, and how long a second of the card is, and a kernel whose memory is there."""

    left_ns: int
    second_ns: float
    kernel_ns: int

    def at(self, ns: int) -> float:
        return (ns - self.left_ns) / self.second_ns


def _stretches(trace: ProcessTrace, ended_ns: int, ruler: _Ruler) -> tuple[Stretch, ...]:
    """The program's work with small gaps closed, each long wait for memory by itself, and its moves to the host. Moves
    to the card are seen in the work that waits for them."""
    whole = (_until(record, ended_ns, ruler) for record in trace.of_kind(*WORK))
    work = sorted(whole, key=lambda record: record.begin_ns)
    made: list[Stretch] = []
    for is_stalled, group in itertools.groupby(work, lambda record: record.page_in_ns >= STALL_S * ruler.second_ns):
        records = list(group)
        made += [_stretch([record], ruler) for record in records] if is_stalled else _joined(records, ruler)
    out = ((r.begin_ns, r.known_end_ns) for r in trace.of_kind(Kind.PREFETCH) if not r.detail)
    made += [Stretch(ruler.at(begin), ruler.at(end), 1.0) for begin, end in merge(out, round(GAP_S * ruler.second_ns))]
    return tuple(sorted(made, key=lambda stretch: stretch.begin_s))


def _until(record: TraceRecord, ended_ns: int, ruler: _Ruler) -> TraceRecord:
    """Work that was not finished when its program was stopped lasted until then. It takes longer than a kernel because
    it waits for memory."""
    if record.end_ns is not None or ended_ns <= record.begin_ns:
        return record
    return replace(record, end_ns=ended_ns, page_in_ns=max(0, ended_ns - record.begin_ns - ruler.kernel_ns))


def _joined(work: list[TraceRecord], ruler: _Ruler) -> list[Stretch]:
    made, at = [], 0
    for _, end in merge(((record.begin_ns, record.known_end_ns) for record in work), round(GAP_S * ruler.second_ns)):
        until = at
        while until < len(work) and work[until].begin_ns <= end:
            until += 1
        made.append(_stretch(work[at:until], ruler))
        at = until
    return made


def _stretch(work: list[TraceRecord], ruler: _Ruler) -> Stretch:
    """The part spent moving memory leaves out the time in which the program waited for its slice of the card."""
    moved = sum(record.page_in_ns for record in work)
    busy = sum(record.known_end_ns - record.begin_ns - record.waited_us * 1000 for record in work)
    end = max(record.known_end_ns for record in work)
    return Stretch(ruler.at(work[0].begin_ns), ruler.at(end), min(1.0, moved / busy) if busy > 0 else 0.0)


def _lifetime(job: JobResult) -> PictureLane:
    return PictureLane(job.name, (Stretch(job.begin_s, job.end_s),))
