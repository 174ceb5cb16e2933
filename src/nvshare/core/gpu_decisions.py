"""The decisions at the GPUs that an event has touched.

A GPU decides alone (core.gpu), unless a gang (core.gangs) has a member at one of them. Then preemption comes first at
all touched GPUs, and admission after that, in the order of their UUIDs: a gang is admitted at all its GPUs or at
none."""

from collections.abc import Mapping

from nvshare.core.actions import Action
from nvshare.core.client import Client
from nvshare.core.gangs.gangs import Gangs
from nvshare.core.gpu import Gpu
from nvshare.core.model import MemoryMode
from nvshare.core.turns.seat import Seat

MOST_SEATS = 1024
"""Of the GPUs that are decided upon in one step of the alarm, unless one GPU has more."""


class GpuDecisions:
    """The GPUs that the present step has touched. `is_paranoid`: see core.node."""

    def __init__(self, gpus: Mapping[str, Gpu], clients: Mapping[int, Client], *, is_paranoid: bool) -> None:
        self.gangs = Gangs(gpus, self.touch)
        self._asking: Client | None = None
        """A client of several GPUs that asked for one of them in this step."""
        self._gpus = gpus
        self._clients = clients
        self._is_paranoid = is_paranoid
        self.touched: dict[str, Gpu] = {}

    def touch(self, gpu: Gpu) -> None:
        self.touched[gpu.uuid] = gpu

    def touch_due(self, now: int) -> None:
        """The alarm rang. If the GPUs whose time has come have many clients, those that come later in the order of
        deadlines are left for the next alarm, which is due at once: others are served before it."""
        due = [gpu for gpu in self._gpus.values() if gpu.deadline <= now]
        if sum(len(gpu.turns.seats) for gpu in due) > MOST_SEATS:
            due.sort(key=lambda gpu: gpu.deadline)
        seats = 0
        for gpu in due:
            seats += len(gpu.turns.seats)
            if seats > MOST_SEATS and self.touched:
                break
            self.touch(gpu)

    def divide_gpu_time(self, now: int) -> None:
        """At all GPUs; nothing is to be decided."""
        for gpu in self._gpus.values():
            gpu.turns.gpu_time.divide(now)

    def note_request(self, client: Client) -> None:
        """A client that may be in a gang wants a lock, or has released one."""
        self._asking = client

    def note_memory_mode(self, client: int, mode: MemoryMode) -> None:
        """What counts of its memory changes on all its GPUs."""
        self._clients[client].memory_mode = mode
        for uuid, seat in self._clients[client].seats.items():
            seat.is_suspended = mode == "checkpoint"
            self._gpus[uuid].turns.reports.mode_changed(seat)
            self.touch(self._gpus[uuid])

    def note_collectives(self, client: int) -> None:
        self.gangs.collectives.used_by(self._clients[client])
        self.note_request(self._clients[client])

    def decide(self, now: int, out: list[Action], *, is_settling: bool) -> list[Gpu]:
        """Decides at the touched GPUs. Returns those of them that have no clients."""
        if self._asking is not None:
            return self._decide_for(now, self._asking, out, is_settling=is_settling)
        empty: list[Gpu] = []
        while True:
            if self.gangs.all and not is_settling and self.gangs.are_concerned(now, self.touched):
                return empty + self._decide_with_gangs(now, out)
            if not self.touched:
                return empty
            touched, self.touched = self.touched, {}
            for gpu in touched.values():
                if not is_settling:  # While settling, no client loses its lock.
                    gpu.preempt(now, out)
                for seat in gpu.admit(now, out, is_settling=is_settling):
                    if len(seat.siblings) > 1 or seat.gang is not None:
                        self._note_admitted(now, seat)
                if self._is_paranoid:
                    gpu.check()
                if not gpu.turns.seats:
                    empty.append(gpu)

    def _decide_for(self, now: int, asking: Client, out: list[Action], *, is_settling: bool) -> list[Gpu]:
        """A client that may be in a gang has asked."""
        self._asking = None
        if asking.uses_collectives:
            self.gangs.look_at(now, asking)  # Before admission: its job has all locks or none.
        empty = self.decide(now, out, is_settling=is_settling)
        if self.gangs.look_at(now, asking):
            empty += self.decide(now, out, is_settling=is_settling)
        return empty

    def _decide_with_gangs(self, now: int, out: list[Action]) -> list[Gpu]:
        self.gangs.decide(now, out)
        empty: list[Gpu] = []
        while self.touched:
            touched = self._preempt(now, out)
            self.touched.clear()
            is_changed = any(gpu.is_reordered for gpu in touched)
            for gpu in touched:
                for seat in gpu.admit(now, out, is_settling=False):
                    if len(seat.siblings) > 1 or seat.gang is not None:
                        self._note_admitted(now, seat)
                    is_changed = True
                if self._is_paranoid:
                    gpu.check()
            empty += [gpu for gpu in touched if not gpu.turns.seats]
            if is_changed:  # A client that was admitted may have been before a gang.
                self.gangs.even_out_quanta(now)
                self.gangs.decide(now, out)
                self.gangs.open()
                self._touch_outranked()
        return empty

    def _preempt(self, now: int, out: list[Action]) -> list[Gpu]:
        touched: dict[str, Gpu] = {}
        while self.touched:
            gpus = dict(sorted(self.touched.items()))
            self.touched.clear()
            for gpu in gpus.values():
                gpu.preempt(now, out)
            self.gangs.drop_together(now, out)
            self._touch_outranked()
            touched |= gpus
            self.gangs.leave_jobs(now, out)  # A lock may have been revoked.
        self.gangs.open()
        return [gpu for _, gpu in sorted((touched | self.touched).items())]

    def _touch_outranked(self) -> None:
        """The rank of a gang depends on all its members: when one of them ends its turn or no longer waits, a client
        that waits at another GPU may outrank it."""
        for gang in self.gangs.all.values():
            if gang.have_ranks_changed():
                for uuid, seat in gang.seats.items():
                    if seat.state == "staying" and self._gpus[uuid].turns.queue.order:
                        self.touch(self._gpus[uuid])

    def _note_admitted(self, now: int, seat: Seat) -> None:
        """A client of several GPUs no longer waits at one of them, so from now on it may be idle at the others."""
        for uuid, other in seat.siblings.items():
            gpu = self._gpus[uuid]
            if other.client in gpu.turns.idle:
                gpu.turns.pauses.restarted(now, other)
                self.touch(gpu)
        if seat.enters_with_gang:
            self.gangs.note_entered(now, seat)
