"""Prometheus metrics: plain counters for each step, metric families at the scrape.

A client library's counter costs more than a step of the core; adding to an integer does not. A scrape turns the
counters and one snapshot into families, one at a time, so that the event loop is never blocked for long."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import CollectorRegistry

from nvshare import __version__
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import SECOND
from nvshare.core.snapshots.snapshot import ClientSnapshot, Snapshot
from nvshare.journal import Step
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.observe.client_series import client_series
from nvshare.scheduler.observe.log import log

BOUNDS_S = (0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
MAX_GPUS = 256
"""GPUs with series of their own; the rest counts as `other`. Programs can invent UUIDs without end."""
_BOUNDS_NS = [int(bound * SECOND) for bound in BOUNDS_S]


class Histogram:
    """Durations by bucket, as integers."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS_NS) + 1)
        self.total_ns = 0

    def add(self, ns: int) -> None:
        self.buckets[bisect_left(_BOUNDS_NS, ns)] += 1
        self.total_ns += ns


class Metrics:
    """Counts what the steps did."""

    def __init__(self, admission: ConnectionAdmission) -> None:
        self._admission = admission
        self.steps = 0
        self._gpus: set[str] = set()
        self.holds: dict[str, Histogram] = {}
        self.waits: dict[str, Histogram] = {}
        self.drops: Counter[tuple[str, str]] = Counter()
        self.revocations: Counter[str] = Counter()
        self.limit_updates = 0
        self.moved_bytes: Counter[tuple[str, str]] = Counter()
        self.moved_ns: Counter[tuple[str, str]] = Counter()
        self.annotation_errors = 0
        self.watch_restarts = 0
        self.journal_lost: Callable[[], int] = lambda: 0
        self._counts: dict[type[ac.Action], Callable[[Any], None]] = {
            ac.GiveLock: self._lock_given,
            ac.EndTurn: self._turn_ended,
            ac.DropLock: self._lock_dropped,
            ac.UpdateLimit: self._limit_updated,
        }

    def observe(self, step: Step) -> None:
        self.steps += 1
        counts = self._counts
        for action in step.actions:
            if type(action) in counts:
                counts[type(action)](action)

    def memory_moved(self, step: Step) -> None:
        """The step is one of MemoryMoved."""
        event = cast("ev.MemoryMoved", step.event)
        direction = self._label(event.gpu), "out" if event.to_host else "in"
        self.moved_bytes[direction] += event.moved
        self.moved_ns[direction] += event.took_ns

    def _lock_given(self, action: ac.GiveLock) -> None:
        (self.waits.get(action.gpu) or self._histogram(self.waits, action.gpu)).add(action.waited_ns)

    def _turn_ended(self, action: ac.EndTurn) -> None:
        (self.holds.get(action.gpu) or self._histogram(self.holds, action.gpu)).add(action.held_ns)
        if action.end == "revoked":
            self.revocations[self._label(action.gpu)] += 1

    def _lock_dropped(self, action: ac.DropLock) -> None:
        self.drops[self._label(action.gpu), action.cause] += 1

    def _limit_updated(self, action: ac.UpdateLimit) -> None:
        self.limit_updates += 1

    def families(self, node: Snapshot) -> Iterator[Metric]:
        """All families except those of clients, one after another."""
        self._forget_gone({gpu.uuid for gpu in node.gpus})
        yield _gauge("nvshare_build_info", "The scheduler's version.", ["version"], [([__version__], 1)])
        yield _gauge("nvshare_scheduling_enabled", "1 while scheduling is on.", [], [([], node.scheduling)])
        yield from _gpu_families(node)
        yield from self._counter_families()
        yield _histogram("nvshare_lock_wait_seconds", "How long clients waited for a lock.", self.waits)
        yield _histogram("nvshare_lock_hold_seconds", "How long clients held a lock.", self.holds)

    def render(self, node: Snapshot, clients: Iterable[ClientSnapshot]) -> Iterator[bytes]:
        """The text of a scrape, in pieces that are each made quickly. `clients` in place of the snapshot's own."""
        for family in self.families(node):
            yield generate_latest(cast("CollectorRegistry", _One(family)))
        yield from client_series(clients)

    def _counter_families(self) -> Iterator[Metric]:
        admission, lost = self._admission, self.journal_lost()
        yield _gauge("nvshare_clients", "Registered clients.", [], [([], admission.registered)])
        yield _gauge("nvshare_connections", "Open connections.", [], [([], admission.connections)])
        yield _counter("nvshare_steps", "Events handled.", [], [([], self.steps)])
        drops = [([gpu, cause], count) for (gpu, cause), count in self.drops.items()]
        yield _counter("nvshare_lock_drops", "Locks taken back, by cause.", ["gpu", "cause"], drops)
        revocations = [([gpu], count) for gpu, count in self.revocations.items()]
        yield _counter("nvshare_lock_revocations", "Locks that were not released in time.", ["gpu"], revocations)
        rejected = [([kind], count) for kind, count in admission.rejected.items()]
        yield _counter(
            "nvshare_rejected_connections", "Connections closed because of an error of the client.", ["kind"], rejected
        )
        bugs = [([where], count) for where, count in log.bugs.items()]
        yield _counter("nvshare_internal_errors", "Defects that did not end the scheduler.", ["where"], bugs)
        yield from self._move_families()
        yield _counter("nvshare_limit_updates", "Limits sent to clients.", [], [([], self.limit_updates)])
        yield _counter(
            "nvshare_annotation_errors", "Pod settings that could not be parsed.", [], [([], self.annotation_errors)]
        )
        yield _counter("nvshare_watch_restarts", "Restarts of the pod watch.", [], [([], self.watch_restarts)])
        yield _counter("nvshare_journal_lost_steps", "Steps that are missing in the journal file.", [], [([], lost)])

    def _move_families(self) -> Iterator[Metric]:
        labels = ["gpu", "direction"]
        moved = [(list(key), count) for key, count in self.moved_bytes.items()]
        yield _counter(
            "nvshare_moved_bytes", "Memory that clients moved to the GPU (in) and to the host.", labels, moved
        )
        took = [(list(key), ns / SECOND) for key, ns in self.moved_ns.items()]
        yield _counter("nvshare_move_seconds", "How long these moves took.", labels, took)

    def _histogram(self, of: dict[str, Histogram], gpu: str) -> Histogram:
        return of.setdefault(self._label(gpu), Histogram())

    def _label(self, gpu: str) -> str:
        if gpu not in self._gpus:
            if len(self._gpus) >= MAX_GPUS:
                return "other"
            self._gpus.add(gpu)
        return gpu

    def _forget_gone(self, gpus: set[str]) -> None:
        """End the series of GPUs that are gone when half of the series are used."""
        if len(self._gpus) > MAX_GPUS // 2:
            gone = self._gpus - gpus
            self._gpus &= gpus
            for gpu in gone:
                self.holds.pop(gpu, None)
                self.waits.pop(gpu, None)
                self.revocations.pop(gpu, None)
            for counts in (self.drops, self.moved_bytes, self.moved_ns):
                for key in [key for key in counts if key[0] in gone]:
                    del counts[key]


class _One:
    """A registry of one family, for prometheus_client's own renderer."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> list[Metric]:
        return [self._family]


def _gpu_families(node: Snapshot) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, str], ...] = (
        ("nvshare_gpu_running_clients", "Clients that hold the GPU's lock.", "running"),
        ("nvshare_gpu_waiting_clients", "Clients that wait for the GPU.", "waiting"),
        ("nvshare_gpu_memory_total_bytes", "The GPU's memory.", "total_memory"),
        ("nvshare_gpu_memory_safe_limit_bytes", "Memory less the reserve.", "safe_limit"),
        ("nvshare_gpu_memory_running_bytes", "Swappable memory of the running clients.", "running_memory_usage"),
        ("nvshare_gpu_memory_unswappable_bytes", "Memory of all clients that cannot be evicted.", "unswappable_memory"),
        ("nvshare_gpu_memory_foreign_bytes", "Memory of processes that are not clients.", "foreign_memory"),
    )
    known = [([gpu.uuid, "" if gpu.index is None else str(gpu.index), gpu.name], 1) for gpu in node.gpus]
    yield _gauge("nvshare_gpu_info", "Index and model of the GPU, as NVML says.", ["gpu", "index", "model"], known)
    for name, text, field in figures:
        yield _gauge(name, text, ["gpu"], [([gpu.uuid], getattr(gpu, field)) for gpu in node.gpus])
    quanta = [([gpu.uuid], gpu.quantum_ns / SECOND) for gpu in node.gpus]
    yield _gauge("nvshare_gpu_quantum_seconds", "Current quantum.", ["gpu"], quanta)
    used = [([gpu.uuid], gpu.utilization_percent / 100) for gpu in node.gpus if gpu.utilization_percent is not None]
    text = "Part of the last seconds in which a kernel of any process ran, as NVML reports."
    yield _gauge("nvshare_gpu_utilization_ratio", text, ["gpu"], used)
    ours = [([gpu.uuid], gpu.accounted_percent / 100) for gpu in node.gpus if gpu.accounted_percent is not None]
    text = "Part of the same seconds in which a client was busy."
    yield _gauge("nvshare_gpu_accounted_ratio", text, ["gpu"], ours)


Rows = Iterable[tuple[list[str], float]]


def _gauge(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _counter(name: str, text: str, labels: list[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _histogram(name: str, text: str, histograms: dict[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["gpu"])
    for gpu, histogram in histograms.items():
        buckets, total = [], 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), histogram.buckets, strict=True):
            total += count
            buckets.append((bound, float(total)))
        family.add_metric([gpu], buckets, histogram.total_ns / SECOND)
    return family
