"""Watchers of pods for apiserver.py: one process with the watchers of many nodes, each as nvshare-scheduler has it."""

import asyncio
import resource
import time
from multiprocessing.connection import Connection
from pathlib import Path

from nvshare.core.events import PodChanged
from nvshare.kube.annotations import Complaint
from nvshare.kube.client import Api, Server
from nvshare.kube.watch import PodEvent, PodWatch
from nvshare.record import Record


class Figures(Record, frozen=True):
    """Of one process: its CPU time and memory, and when each limit came."""

    cpu_s: float
    resident: int
    came_at: dict[int, float]


class Watch(PodWatch):
    """One node's; knows whether its stream is open."""

    is_open = False

    def _recovered(self) -> None:
        super()._recovered()
        self.is_open = True


class Watchers:
    """The watchers of some nodes."""

    def __init__(self, server: Server, nodes: list[str]) -> None:
        self.came_at: dict[int, float] = {}
        api = Api(server)
        self.watches = [Watch(api, node, post=self._note, complain=_complain) for node in nodes]

    def _note(self, event: PodEvent) -> None:
        if isinstance(event, PodChanged) and event.limit is not None:
            self.came_at[event.limit] = time.monotonic()

    def figures(self) -> Figures:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Figures(
            cpu_s=used.ru_utime + used.ru_stime,
            resident=resident(Path("/proc/self")),
            came_at=self.came_at,
        )


def _complain(pod: str, label: str, complaint: Complaint) -> None:
    raise AssertionError(f"{label}: {complaint}")


def resident(process: Path) -> int:
    """Bytes."""
    lines = (process / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) << 10


def run(server: Server, nodes: list[str], pipe: Connection) -> None:
    """The process: its figures without a watcher. Told to begin, it starts all watchers, and its figures follow when
    all of them watch. Then they follow whenever they are asked for, until it is told to end."""
    asyncio.run(_run(server, nodes, pipe))


async def _run(server: Server, nodes: list[str], pipe: Connection) -> None:
    loop = asyncio.get_running_loop()
    watchers = Watchers(server, nodes)
    pipe.send(watchers.figures())
    await loop.run_in_executor(None, pipe.recv)
    tasks = [asyncio.ensure_future(watch.run()) for watch in watchers.watches]
    while not all(watch.is_open for watch in watchers.watches):
        await asyncio.sleep(0.05)
    pipe.send(watchers.figures())
    while await loop.run_in_executor(None, pipe.recv):
        pipe.send(watchers.figures())
    for task in tasks:
        task.cancel()
