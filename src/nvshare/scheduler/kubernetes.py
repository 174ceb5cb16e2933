"""The scheduler inside a cluster: pods' wishes become events of the core, and what happens to a pod is told on it.

Three things are told as Events on the pod, where its owner looks: an annotation that cannot be read, a long wait for a
GPU, and a process that uses a shared GPU without the library (it escapes every limit, and nobody would notice)."""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from nvshare.core.actions import ReportLongWait
from nvshare.core.model import SECOND
from nvshare.kube.client import Api, Server, in_cluster
from nvshare.kube.events import PodNote, Recorder
from nvshare.kube.watch import PodEvent, PodWatch
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.identity import place_of, proc_text
from nvshare.scheduler.log import log
from nvshare.scheduler.metrics import Metrics
from nvshare.scheduler.step import Step, client_name

_POD = "pod/"
_NOT_SHARED = (
    "Process {pid} uses GPU {gpu} without nvshare: it is outside the turns and of the memory limit. Is LD_PRELOAD"
    " replaced or dropped in the container? Then try the device plugin's injection ld.so.preload, or add"
    " /usr/lib/nvshare/libnvshare.so to LD_PRELOAD."
)


class Forward(logging.Handler):
    """Lets the adapters' log lines come out as the scheduler's own."""

    def emit(self, record: logging.LogRecord) -> None:
        {logging.INFO: log.info, logging.WARNING: log.warning}.get(record.levelno, log.error)(record.getMessage())


def find_cluster(wanted: str, environment: Mapping[str, str] = os.environ) -> Server | None:
    """The API server to follow, or None off-cluster; `wanted` is the setting `auto`, `on` or `off`."""
    if wanted == "off":
        return None
    server = in_cluster(environment)
    if server is None:
        log.info("Not inside a Kubernetes cluster: no pod annotations to follow")
    return server


class Kubernetes:
    """Follows this node's pods and speaks on them."""

    def __init__(self, engine: Engine, metrics: Metrics, server: Server, node: str) -> None:
        self._engine = engine
        self._metrics = metrics
        api = Api(server)
        self._watch = PodWatch(api, node, post=self._post, complain=self._complain)
        self._recorder = Recorder(api, node)
        self._strangers: set[tuple[str, int]] = set()
        forwarder = logging.getLogger("nvshare.kube")
        forwarder.addHandler(Forward())
        forwarder.setLevel(logging.INFO)
        forwarder.propagate = False

    def start(self) -> list[asyncio.Task[None]]:
        """The tasks that do the work."""
        loop = asyncio.get_running_loop()
        return [loop.create_task(self._watch.run()), loop.create_task(self._recorder.run())]

    def observe(self, step: Step) -> None:
        """A long wait is told on the pod."""
        for action in step.actions:
            if isinstance(action, ReportLongWait):
                self._tell_long_wait(action)

    def see_strangers(self, gpu: str, pids: Iterable[int], proc: Path = Path("/proc")) -> None:
        """Processes on a GPU that are not clients. Told when seen twice: one that has just begun may yet register."""
        now = {(gpu, pid) for pid in pids}
        before = {pair for pair in self._strangers if pair[0] == gpu}
        self._strangers = (self._strangers - before) | now
        for _, pid in sorted(now & before):
            try:
                pod = place_of(proc_text(proc / str(pid) / "cgroup")).pod
            except OSError:
                continue  # it has ended meanwhile
            if pod in self._watch.table.sharers:
                self._tell(pod, "NotShared", _NOT_SHARED.format(pid=pid, gpu=gpu))

    def _post(self, event: PodEvent) -> None:
        self._metrics.watch_restarts = max(0, self._watch.watches - 1)
        self._engine.post(event)

    def _complain(self, pod: str, label: str, key: str, value: str, reason: str) -> None:
        self._metrics.annotation_errors += 1
        text = f"{key}={value[:80]!r} {reason}; the value before it stays in force"
        log.warning(f"Pod {label}: {text}")
        self._tell(pod, "BadAnnotation", text)

    def _tell_long_wait(self, wait: ReportLongWait) -> None:
        client = self._engine.node.clients.get(wait.client)
        if client is None or not client.group.key.startswith(_POD):
            return
        holder = self._engine.node.clients.get(wait.holder)
        whom = "nobody: its memory does not fit" if holder is None else f"{holder.group.label} ({holder.name})"
        text = f"Process {client.pid} ({client_name(wait.client)}) has waited {wait.waited_ns // SECOND} s for GPU"
        text += f" {wait.gpu}, place {wait.place}; it is held by {whom}"
        self._tell(client.group.key.removeprefix(_POD), "WaitingForGPU", text, warning=False)

    def _tell(self, pod: str, reason: str, text: str, *, warning: bool = True) -> None:
        known = self._watch.table.known.get(pod)
        if known is not None:
            note = PodNote(pod=known.api_uid, label=known.label, reason=reason, message=text, warning=warning)
            self._recorder.note(note)
