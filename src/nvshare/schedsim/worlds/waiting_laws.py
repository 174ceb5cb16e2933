"""What must hold of alarms and of GPUs that clients wait for, in every world at every step.

    alarm   of MOST_VAIN steps that alarms cause at one moment, one has an action: each may do a part of the work
    GPU     if a client waits, a client has a lock: at once, or after the time in which room is made for the first in
            the queue, on the card or at the other GPUs of its job. This time begins when no member of the job is held
            back or behind others there: with policy fair it may have to wait until others had their shares

The bound on the wait of one client grows with the number of clients, so it does not show a GPU that nobody gets."""

from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.gpu import Gpu
from nvshare.core.node import Node

MOST_VAIN = 20


class WaitingLaws:
    """Since one scheduler began. Call `check` after each step."""

    def __init__(self, now: int, grace_ns: int) -> None:
        self._now = now
        self._grace_ns = grace_ns
        self._deadline: int | None = None
        self._vain = 0
        """Alarms at this moment, one after the other, that had no action."""
        self._late_ns = 0
        """For how long the scheduler did nothing after a deadline."""
        self._unused: dict[str, tuple[int, int]] = {}
        """The GPUs without a holder although a client waits: since when, and how late the scheduler had been then."""

    def check(self, now: int, event: ev.Event, actions: list[Action], node: Node) -> None:
        now = max(now, self._now)
        if self._deadline is not None:
            self._late_ns += max(0, now - max(self._deadline, self._now))
        self._now, self._deadline = now, node.next_deadline()
        is_later = self._deadline is None or self._deadline > now
        self._vain = self._vain + 1 if isinstance(event, ev.AlarmRang) and not actions and not is_later else 0
        assert self._vain < MOST_VAIN, f"alarms had no effect at {now}, and the next one is at {self._deadline}"
        is_decided = node.is_scheduling and not node.is_settling
        for uuid, gpu in node.gpus.items():
            if gpu.turns.is_empty and gpu.turns.queue.order and is_decided and not _waits_for_its_job(gpu, node):
                self._check_unused(uuid, gpu)
            else:
                self._unused.pop(uuid, None)

    def _check_unused(self, uuid: str, gpu: Gpu) -> None:
        since, late_ns = self._unused.setdefault(uuid, (self._now, self._late_ns))
        longest_ns = gpu.turns.mode.longest_turn_ns + 2 * self._grace_ns + self._late_ns - late_ns
        assert self._now - since <= longest_ns, f"clients wait for {uuid}, and nobody has a lock since {since}"


def _waits_for_its_job(gpu: Gpu, node: Node) -> bool:
    """The first in the queue is a member of a job, and another member is held back, or is not the first at its GPU."""
    first = gpu.turns.queue.order[0][2]
    if first.gang is None or not first.gang.is_job:
        return False
    queues = {uuid: node.gpus[uuid].turns.queue.order for uuid in first.gang.seats}
    return any(
        seat.state == "blocked" or (seat.state == "waiting" and queues[uuid][0][2] is not seat)
        for uuid, seat in first.gang.seats.items()
    )
