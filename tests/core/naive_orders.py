"""What the naive account knows of the operator's orders about clients."""

from core.naive_gpu import NaiveGpu, NaiveSeat
from nvshare.core import events as ev
from nvshare.core.model import SECOND, ModeName, Settings
from nvshare.core.turns.turns import Turns

PRIORITY_STEP_NS = 30 * SECOND


class NaiveOrders:
    """The part of Naive that notes pauses and priorities."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.gpus: dict[str, NaiveGpu] = {}
        self.mode: ModeName = settings.quantum.mode
        self.policy = settings.policy
        self.order_number = 0
        """The client that began to wait last has it."""
        self.has_new_policy = False
        """The present step changed the policy."""
        self.paused_gpus: set[str] = set()
        self.paused_groups: set[str] = set()
        self.priorities: dict[str, int] = {}
        self.weights: dict[str, int] = {}
        """The operator's, by group. A group keeps them without clients."""

    def _PauseSet(self, now: int, event: ev.PauseSet) -> None:  # noqa: N802 - the event's own name
        """The pause of a group or of a GPU; a client is paused while either is."""
        paused = self.paused_gpus if event.group is None else self.paused_groups
        target = event.gpu if event.group is None else event.group
        (paused.add if event.on else paused.discard)(str(target))

    def is_paused(self, uuid: str, seat: NaiveSeat) -> bool:
        return uuid in self.paused_gpus or seat.group in self.paused_groups

    def take_paused_out(self, uuid: str, gpu: NaiveGpu, real: Turns) -> None:
        """A client that is paused and waits leaves the queue, with its rank."""
        for seat in gpu.named("waiting"):
            if self.is_paused(uuid, seat) and real.seats[seat.client].state == "blocked":
                seat.state, seat.rank = "blocked", real.seats[seat.client].kept_rank

    def _PrioritySet(self, now: int, event: ev.PrioritySet) -> None:  # noqa: N802 - the event's own name
        """A new priority moves the rank by as much as it moves the arrival."""
        self.priorities.pop(event.group, None)
        if event.priority is not None:
            self.priorities[event.group] = event.priority
        for gpu in self.gpus.values():
            by_rank = sorted(gpu.seats.values(), key=lambda seat: (seat.rank or 0, seat.order))
            for seat in (seat for seat in by_rank if seat.group == event.group):
                before = self.handicap(seat)
                seat.priority = self.priorities.get(event.group, seat.own_priority)
                if seat.rank is not None and seat.state in ("waiting", "blocked", "silent"):
                    self.order_number += self.handicap(seat) != before
                    seat.order = self.order_number if self.handicap(seat) != before else seat.order
                    seat.rank = None if seat.may_lag else seat.rank + self.handicap(seat) - before

    def _WeightSet(self, now: int, event: ev.WeightSet) -> None:  # noqa: N802 - the event's own name
        self.weights.pop(event.group, None)
        if event.weight is not None:
            self.weights[event.group] = event.weight

    def weight(self, seat: NaiveSeat) -> int:
        return self.weights.get(seat.group, seat.own_weight)

    def _PolicySet(self, now: int, event: ev.PolicySet) -> None:  # noqa: N802 - the event's own name
        """A client that waits is ranked again, in the order of the queue."""
        self.has_new_policy, self.policy = event.policy != self.policy, event.policy

    def note_policy(self, gpu: NaiveGpu, real: Turns) -> None:
        for seat in sorted(gpu.named("waiting"), key=lambda seat: (seat.rank or 0, seat.order)):
            rank = real.seats[seat.client].rank
            self.order_number += seat.rank != rank
            seat.order = self.order_number if seat.rank != rank else seat.order
            seat.rank = rank if seat.may_lag else None  # Its lag is of the mode in which it came.
        for seat in gpu.named("blocked", "silent"):
            seat.rank = real.seats[seat.client].kept_rank

    def handicap(self, seat: NaiveSeat) -> int:
        counts = self.policy in ("priority", "fair")
        return -max(-10, min(10, seat.priority)) * PRIORITY_STEP_NS if counts else 0

    def _QuantumSet(self, now: int, event: ev.QuantumSet) -> None:  # noqa: N802 - the event's own name
        self._set_mode(event.gpu, "fixed")

    def _ModeSet(self, now: int, event: ev.ModeSet) -> None:  # noqa: N802 - the event's own name
        self._set_mode(event.gpu, event.mode)

    def _set_mode(self, uuid: str | None, mode: ModeName) -> None:
        for gpu in self.gpus.values() if uuid is None else [self.gpus[uuid]]:
            gpu.mode = mode
        if uuid is None:
            self.mode = mode
