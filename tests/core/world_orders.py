"""What an operator may do to the clients of a world."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from nvshare.core import events as ev
from nvshare.core.node import Node
from nvshare.core.queue.policies import POLICIES

Pick = Callable[[Sequence[Any]], Any]


class WorldOrders(ABC):
    """A part of World."""

    node: Node
    last_client: int

    @abstractmethod
    def step(self, event: ev.Event) -> None:
        """Something happens, and is checked."""

    def pause(self, pick: Pick) -> None:
        """A group or a GPU, and sooner or later it goes on."""
        groups = sorted({client.group.key for client in self.node.clients.values()})
        target = pick([{"gpu": next(iter(self.node.gpus))}, *({"group": group} for group in groups)])
        self.step(ev.PauseSet(True, **target))
        for what in ("catch_up", "drain_all", "want", "wait"):
            if pick([True, False]):
                getattr(self, what)(pick)
        self.step(ev.PauseSet(False, **target))

    def yield_turns(self, pick: Pick) -> None:
        gpu = pick(list(self.node.gpus))
        self.step(ev.YieldAsked(gpu=gpu) if pick([True, False]) else ev.YieldAsked(client=self.last_client))

    def set_policy(self, pick: Pick) -> None:
        self.step(ev.PolicySet(pick(list(POLICIES))))

    def limit_cores(self, pick: Pick) -> None:
        groups = sorted({client.group.key for client in self.node.clients.values()})
        if groups:
            self.step(ev.CoreLimitSet(pick(groups), pick([5, 30, 60, 90, None])))

    def set_priority(self, pick: Pick) -> None:
        groups = sorted({client.group.key for client in self.node.clients.values()})
        if groups:
            group = pick(groups)
            self.step(ev.PrioritySet(group, pick([-3, 0, 2])))
            self.step(ev.WeightSet(group, pick([1, 100, None])))
            if pick([True, False]):
                self.step(ev.PrioritySet(group, None))
                self.step(ev.WeightSet(group, None))
