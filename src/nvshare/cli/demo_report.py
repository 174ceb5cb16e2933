"""What the demonstration found: a table, a verdict, a picture. Pure, but for reading the simulated card's traces."""

from collections.abc import Mapping

from nvshare.cli.demo_plan import GIB, Plan
from nvshare.cli.demo_run import JobResult, PhaseResult
from nvshare.cli.picture import Panel, PictureLane, Stretch
from nvshare.record import Record
from nvshare.simgpu.trace import Kind, ProcessTrace, merge, read_traces

WORK = (Kind.KERNEL, Kind.COPY, Kind.MEMSET, Kind.PREFETCH)
HOLE_S = 0.6
"""Holes in a program's work that are too small to see, in seconds of the card."""

KINDS = {
    "steady": "GPU always busy",
    "bursty": "GPU busy half of the time",
    "small": "small programs",
}


class Line(Record, frozen=True):
    """A row of the table. Times are the card's seconds."""

    group: str
    title: str
    seconds: float | None
    """None: it never ended, and nothing can be said about when it would have."""
    outcome: str
    compared: float | None
    """How many times as fast as one after another."""


def lines(plan: Plan, results: Mapping[str, PhaseResult]) -> list[Line]:
    made = []
    for key, result in results.items():
        kind = key.partition("-")[0]
        serial = results[f"{kind}-serial"].seconds
        failed = next((job for job in result.jobs if job.error), None)
        if failed is not None:
            made.append(Line(_group(plan, result), result.phase.title, None, f"{failed.name}: {failed.error}", None))
            continue
        whole = result.projected_s
        outcome = "done"
        if not result.is_finished:
            came = sum(job.done for job in result.jobs) / len(result.jobs)
            outcome = f"thrashes: {came:.2%} done in {result.seconds / plan.scale:.0f} s, then stopped"
        seconds = None if whole == float("inf") else whole / plan.scale
        made.append(Line(_group(plan, result), result.phase.title, seconds, outcome, serial / whole))
    return made


def verdicts(results: Mapping[str, PhaseResult]) -> list[tuple[str, bool]]:
    """What the demonstration set out to show, in this run's figures, and whether it did."""
    turns, thrash = results["steady-shared"], results["steady-unified"]
    beats = thrash.projected_s / turns.seconds
    close = turns.seconds / results["steady-serial"].seconds
    bursty = results["bursty-serial"].seconds / results["bursty-shared"].seconds
    small = results["small-serial"].seconds / results["small-shared"].seconds
    text = f"{beats:.0f}x" if beats != float("inf") else "no end in sight; any number of times"
    return [
        (f"taking turns beats thrashing: {text} (promised: 3x)", turns.is_finished and beats >= 3),
        (f"big programs, GPU always busy: {close:.2f}x the time of one after another (promised: 1.10x)", close <= 1.1),
        (f"big programs, GPU busy half of the time: {bursty:.2f}x as fast as one after another", bursty > 1),
        (f"small programs side by side: {small:.2f}x as fast as one after another", small > 1),
    ]


def panels(plan: Plan, results: Mapping[str, PhaseResult]) -> tuple[Panel, ...]:
    """The picture's panels, one for each situation; lengths are the card's seconds."""
    made = []
    for result in results.values():
        if any(job.error for job in result.jobs) and result.phase.stops_at_failure:
            continue  # It was over before there was anything to see; the table says so.
        length = result.seconds / plan.scale
        text = f"{length:.0f} s" if result.is_finished else "stopped: it would go on like this"
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
    ruler = _Ruler(left, plan.scale * 1e9)
    return tuple(
        PictureLane(job.name, _stretches(traces[job.pid], ruler) if job.pid in traces else ()) for job in result.jobs
    )


class _Ruler(Record, frozen=True):
    """Where the picture begins, and how long a second of the card is."""

    left_ns: int
    second_ns: float

    def at(self, ns: int) -> float:
        return (ns - self.left_ns) / self.second_ns


def _stretches(trace: ProcessTrace, ruler: _Ruler) -> tuple[Stretch, ...]:
    """The program's work with small holes closed. Time in which it waited for its slice of the card is not counted as
    work when the part spent moving memory is told."""
    work = sorted(trace.of_kind(*WORK), key=lambda record: record.begin_ns)
    made, at = [], 0
    for begin, end in merge(
        ((record.begin_ns, record.known_end_ns) for record in work), round(HOLE_S * ruler.second_ns)
    ):
        moved = busy = 0
        while at < len(work) and work[at].begin_ns <= end:
            record = work[at]
            moved += record.page_in_ns
            busy += record.known_end_ns - record.begin_ns - record.waited_us * 1000
            at += 1
        made.append(Stretch(ruler.at(begin), ruler.at(end), min(1.0, moved / busy) if busy > 0 else 0.0))
    return tuple(made)


def _lifetime(job: JobResult) -> PictureLane:
    return PictureLane(job.name, (Stretch(job.begin_s, job.end_s),))
