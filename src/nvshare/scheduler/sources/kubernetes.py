"""The scheduler inside a cluster: changes of pods become events of the core, and Events are written on pods.

These become Events on the pod, where its owner looks: an annotation or a variable that cannot be read, an annotation
that is above the pod's ResourceClaim, a weight that the policy ignores, a long wait for a GPU, a memory limit that is
too small for the pod's evicted GPU memory, and a process that uses a shared GPU without the library, which no limit
applies to."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from nvshare.admin import client_name
from nvshare.core.actions import ReportLongWait
from nvshare.core.events import ClaimPrepared, PodChanged, PodsListed, PolicySet
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.limits.groups import Group
from nvshare.core.model import SECOND
from nvshare.core.queue.expected_start import expected_starts
from nvshare.core.queue.policies import weights_ignored
from nvshare.inventory.processes import proc_text
from nvshare.journal import Step
from nvshare.kube.annotations import CORE_LIMIT, MEMORY_LIMIT, RESOURCE, SPEC_CORE_LIMIT, SPEC_LIMIT, WEIGHT, Complaint
from nvshare.kube.client import Api, Server, in_cluster
from nvshare.kube.events import PodNote, Recorder
from nvshare.kube.watch import PodEvent, PodWatch
from nvshare.scheduler.clients.identity import cgroup_owner
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.metrics import Metrics
from nvshare.scheduler.observe.names import gpu_described
from nvshare.scheduler.sources.claims import Claims

_NOT_SHARED = (
    "Process {pid} uses GPU {gpu} without nvshare: turns and the memory limit do not apply to it. If the container"
    " replaces or removes LD_PRELOAD, add /usr/lib/nvshare/libnvshare.so to it, or set the device plugin's injection to"
    " ld.so.preload."
)


class Forward(logging.Handler):
    """Writes the log records of nvshare.kube into the scheduler's log."""

    def emit(self, record: logging.LogRecord) -> None:
        {logging.INFO: log.info, logging.WARNING: log.warning}.get(record.levelno, log.error)(record.getMessage())


def find_cluster(wanted: str, environment: Mapping[str, str] = os.environ) -> Server | None:
    """The API server, or None outside a cluster; `wanted` is the setting `auto`, `on` or `off`."""
    if wanted == "off":
        return None
    server = in_cluster(environment)
    if server is None:
        log.info("Not inside a Kubernetes cluster: pod annotations are not read")
    return server


class Kubernetes:
    """Watches the pods of this node and writes Events on them."""

    def __init__(
        self, engine: Engine, metrics: Metrics, claims: Claims, server: Server, node: str, resource: str = RESOURCE
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._claims = claims
        self.pods_listed = asyncio.Event()
        api = Api(server)
        self._watch = PodWatch(api, node, post=self._post, complain=self._complain, resource=resource)
        self._recorder = Recorder(api, node)
        self._strangers: set[tuple[str, int]] = set()
        self._weights_told: dict[str, str] = {}
        """By group: what was reported of a weight that has no effect."""
        forwarder = logging.getLogger("nvshare.kube")
        forwarder.addHandler(Forward())
        forwarder.setLevel(logging.INFO)
        forwarder.propagate = False

    @property
    def runs(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """What does the work as long as it runs."""
        return [self._watch.run, self._recorder.run]

    def observe(self, step: Step) -> None:
        """A long wait, a limit above the claim and a weight that is ignored become Events on the pod."""
        for action in step.actions:
            if isinstance(action, ReportLongWait):
                self._report_long_wait(action)
        if isinstance(step.event, PodChanged | ClaimPrepared):
            self._report_limits_above_claims()
            self._report_ignored_weights()
        elif isinstance(step.event, PolicySet):
            self._report_ignored_weights()
        elif isinstance(step.event, PodsListed):
            self.pods_listed.set()

    def see_strangers(self, gpu: str, pids: Iterable[int], proc: Path = Path("/proc")) -> None:
        """Processes on a GPU that are not clients. Reported when seen twice: a process that has just started may still
        register."""
        now = {(gpu, pid) for pid in pids}
        before = {pair for pair in self._strangers if pair[0] == gpu}
        self._strangers = (self._strangers - before) | now
        for _, pid in sorted(now & before):
            try:
                pod = cgroup_owner(proc_text(proc / str(pid) / "cgroup")).pod
            except OSError:
                continue  # it has ended
            if pod is not None and (pod in self._watch.table.sharers or self._has_claim(pod)):
                self._report(pod, "NotShared", _NOT_SHARED.format(pid=pid, gpu=gpu))

    def report_host_memory(self, client: int, text: str) -> None:
        """The host cannot take all GPU memory of a client."""
        known = self._engine.node.clients.get(client)
        if known is not None and known.group.key.startswith(POD_PREFIX):
            text = f"Process {known.pid} ({client_name(client)}): {text}"
            self._report(known.group.key.removeprefix(POD_PREFIX), "HostMemoryTooSmall", text)

    def _post(self, event: PodEvent) -> None:
        self._metrics.watch_restarts = max(0, self._watch.watches - 1)
        self._engine.post(event)

    def _complain(self, pod: str, label: str, about: Complaint) -> None:
        self._metrics.annotation_errors += 1
        text = f"{about.key}={about.value[:80]!r} {about.reason}; {about.instead}"
        log.warning(f"Pod {label}: {text}")
        self._report(pod, "BadVariable" if about.key in (SPEC_LIMIT, SPEC_CORE_LIMIT) else "BadAnnotation", text)

    def _report_long_wait(self, wait: ReportLongWait) -> None:
        client = self._engine.node.clients.get(wait.client)
        if client is None or not client.group.key.startswith(POD_PREFIX):
            return
        holder = self._engine.node.clients.get(wait.holder)
        whom = "no client: its memory does not fit" if holder is None else f"{holder.group.label} ({holder.name})"
        gpu = gpu_described(self._engine.node.gpus[wait.gpu])
        text = f"Process {client.pid} ({client_name(wait.client)}) has waited {wait.waited_ns // SECOND} s for {gpu}"
        if wait.is_paused:
            text += ": it is paused, by its annotation nvshare.com/gpu-pause or by `nvsharectl pause`"
        elif wait.is_held_back:
            text += ": it has used its share of GPU time"
        elif wait.place:
            text += f", place {wait.place}; it is held by {whom}{self._start(wait)}"
        else:
            text += f": its turn would evict GPU memory of {whom}, and there is no host memory for that"
        self._report(client.group.key.removeprefix(POD_PREFIX), "WaitingForGPU", text, warning=False)

    def _start(self, wait: ReportLongWait) -> str:
        """By when it will start, if that can be said."""
        gpu = self._engine.node.gpus[wait.gpu]
        start_ns = expected_starts(gpu.turns, gpu.memory, self._engine.now()).get(wait.client)
        return "" if start_ns is None else f"; it will probably start within {max(1, round(start_ns / SECOND))} s"

    def _has_claim(self, pod: str) -> bool:
        group = self._engine.node.groups.get(f"{POD_PREFIX}{pod}")
        return group is not None and not self._claims.labels.isdisjoint(group.claims.names)

    def _report_limits_above_claims(self) -> None:
        for group in self._engine.node.groups.values():
            claims = group.claims
            for key, wanted, unit, lower in (
                (MEMORY_LIMIT, group.annotation, "bytes on", claims.lower_than),
                (CORE_LIMIT, group.core_limit, "% of", claims.lower_core_limits),
            ):
                if wanted is not None and (in_force := lower(wanted)):
                    told = ", ".join(f"{most} {unit} GPU {gpu}" for gpu, most in in_force.items())
                    text = f"{key}={wanted} is more than the pod's ResourceClaims allow; in force: {told}"
                    self._report(group.key.removeprefix(POD_PREFIX), "LimitAboveClaim", text)

    def _report_ignored_weights(self) -> None:
        """Once, until the weight or the policy changes."""
        ignored = weights_ignored(self._engine.node.orders.policy)
        told = self._weights_told
        self._weights_told = {}
        for group in self._engine.node.groups.values() if ignored else ():
            if (weight := _weight_of(group)) is not None:
                self._weights_told[group.key] = text = f"{weight} has no effect: {ignored}"
                if told.get(group.key) != text:
                    self._report(group.key.removeprefix(POD_PREFIX), "WeightIgnored", text)

    def _report(self, pod: str, reason: str, text: str, *, warning: bool = True) -> None:
        known = self._watch.table.known.get(pod)
        if known is not None:
            note = PodNote(pod=known.api_uid, label=known.label, reason=reason, message=text, warning=warning)
            self._recorder.note(note)


def _weight_of(group: Group) -> str | None:
    """The weight that a pod's owner has set, if it would count."""
    if group.weight is not None:
        return f"{WEIGHT}={group.weight}"
    if group.order.weight is not None or group.claims.weight is None:
        return None
    return f"The weight of {group.claims.weight} in its ResourceClaim"
