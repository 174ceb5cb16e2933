"""Situations in which priorities must preempt that random walks rarely reach, and cores that do not do it."""

from collections.abc import Callable
from typing import Any

from nvshare.core import events as ev
from nvshare.core.gangs.gang import Gang
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.queue.preemption import Preemption

SETTINGS = Settings(policy="priority", quantum=QuantumRule(mode="fixed", fixed_ns=300 * SECOND))
EPOCH = 1
GPUS = ("g0", "g1")
Story = list[tuple[int, ev.Event]]


def _joins(client: int, priority: int, *gpus: str) -> tuple[int, ev.Event]:
    claims = tuple(Claim(gpu, 16 * GIB) for gpu in gpus)
    return 0, ev.ClientRegistered(client, f"run/{client}", "x", "x", claims, priority=priority)


def _asks(at_s: int, client: int, gpu: str, gib: int) -> tuple[int, ev.Event]:
    return at_s * SECOND, ev.LockRequested(client, gpu, Memory(gib * GIB))


def _releases(at_s: int, client: int, gpu: str, number: int) -> tuple[int, ev.Event]:
    return at_s * SECOND, ev.LockReleased(client, gpu, (EPOCH << 32) + number, False)


FOUND: Story = [(0, ev.GpuFound(gpu, 16 * GIB)) for gpu in GPUS]

ONE_OF_TWO: Story = [
    *FOUND,
    _joins(1, 3, "g0"), _joins(2, 0, "g0"), _joins(3, 3, "g0"),
    _asks(1, 1, "g0", 5), _asks(2, 2, "g0", 5), _asks(3, 3, "g0", 9),
]  # fmt: skip
"""Either of the first two would be enough for the third, and the first one is first to leave, but not outranked."""

GANG: Story = [
    *FOUND,
    _joins(1, 0, *GPUS), _joins(2, 0, "g1"), _joins(3, 3, "g0"),
    _asks(1, 1, "g0", 9), _asks(2, 2, "g1", 9), _asks(3, 1, "g1", 9), (4 * SECOND, ev.ClientLeft(2)),
    _asks(5, 3, "g0", 9),
]  # fmt: skip
"""A client outranks one that holds two GPUs."""

BY_A_GANG: Story = [
    *FOUND,
    _joins(1, 0, "g0"), _joins(2, 0, "g1"), _joins(3, 3, *GPUS), _joins(4, 0, "g1"),
    _asks(1, 3, "g0", 9), _asks(2, 2, "g1", 9), _asks(3, 3, "g1", 9), (4 * SECOND, ev.ClientLeft(2)),
    _releases(5, 3, "g0", 1), _releases(5, 3, "g1", 3),
    _asks(6, 1, "g0", 9), _asks(6, 4, "g1", 9), _asks(10, 3, "g0", 9),
]  # fmt: skip
"""One that has held two GPUs together outranks a client at each of them."""

BREACHES: dict[str, tuple[Story, Any, str, Callable[[Any], Any]]] = {
    "an equal protects a lower priority": (
        ONE_OF_TWO, Preemption, "_outranked",
        lambda real: lambda self, now, head: [
            one for one in real(self, now, head) if one[0] in self._leaving(now, head)
        ],
    ),
    "gangs are not outranked": (GANG, Gang, "highest_priority", lambda real: 10),
    "gangs do not outrank": (BY_A_GANG, Gang, "lowest_priority", lambda real: -10),
}  # fmt: skip
