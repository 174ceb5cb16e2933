"""What the naive account notes of memory that was measured, and of what clients say about their use of it."""

from core.naive_gpu import NaiveGpu, NaiveSeat
from nvshare.core import events as ev
from nvshare.core.model import Memory, Settings


class MemoryNotes:
    """A part of core.naive.Naive."""

    settings: Settings
    gpus: dict[str, NaiveGpu]
    slowness: int

    def allow(self, gpu: NaiveGpu, more_ns: int) -> None:
        """Every wait at this GPU may be longer by so much. core.modes.mode lists the reasons."""
        raise NotImplementedError

    def resize(self, gpu: NaiveGpu, seat: NaiveSeat, memory: Memory) -> None:
        if memory != seat.memory:
            seat.memory = memory
            self.allow(gpu, self.settings.grace_ns)

    def _MemoryChanged(self, now: int, event: ev.MemoryChanged) -> None:  # noqa: N802 - the event's own name
        gpu = self.gpus[event.gpu]
        self.resize(gpu, gpu.seats[event.client], event.memory)

    def _WorkingSetReported(self, now: int, event: ev.WorkingSetReported) -> None:  # noqa: N802 - the event's own name
        self.gpus[event.gpu].seats[event.client].working_set = event.used
        self.allow(self.gpus[event.gpu], self.settings.grace_ns)

    def _WorkSlowed(self, now: int, event: ev.WorkSlowed) -> None:  # noqa: N802 - the event's own name
        self.slowness = event.factor
        self.allow(self.gpus[event.gpu], self.settings.grace_ns)

    def _MemoryMeasured(self, now: int, event: ev.MemoryMeasured) -> None:  # noqa: N802 - the event's own name
        gpu = self.gpus[event.gpu]
        gpu.foreign = event.foreign
        gpu.context = gpu.context if event.context_bytes is None else event.context_bytes
        for process in event.processes:
            if seat := gpu.seats.get(process.client):
                seat.used, seat.highest = process.used, max(seat.highest, process.reported)
        self.allow(gpu, self.settings.grace_ns)

    def _HostMemoryMeasured(self, now: int, event: ev.HostMemoryMeasured) -> None:  # noqa: N802 - the event's own name
        for host in event.rooms:
            if seat := self.gpus[host.gpu].seats.get(host.client):
                seat.host_room = host.room
                self.allow(self.gpus[host.gpu], self.settings.grace_ns)
