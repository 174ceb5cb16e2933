"""What must hold of alarms and of GPUs that clients wait for, in every world at every step.

    alarm   of MOST_VAIN steps that alarms cause at one moment, one has an action: each may do a part of the work
    GPU     if a client waits, a client has a lock: at once, or after the time in which room is made for the first in
            the queue, on the card or at the other GPUs of its job

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
        for uuid, gpu in node.gpus.items():
            if gpu.turns.is_empty and gpu.turns.queue.order and node.is_scheduling and not node.is_settling:
                self._check_unused(uuid, gpu)
            else:
                self._unused.pop(uuid, None)

    def _check_unused(self, uuid: str, gpu: Gpu) -> None:
        since, late_ns = self._unused.setdefault(uuid, (self._now, self._late_ns))
        longest_ns = gpu.turns.mode.longest_quantum_ns + 2 * self._grace_ns + self._late_ns - late_ns
        assert self._now - since <= longest_ns, f"clients wait for {uuid}, and nobody has a lock since {since}"
