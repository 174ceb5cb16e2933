"""How wrong the expected starts are (core.queue.expected_start): each is compared with what happened."""

from collections.abc import Iterable

from nvshare.core.actions import Action, GiveLock, QueueClient
from nvshare.core.model import SECOND
from nvshare.core.queue.expected_start import expected_starts
from nvshare.record import Record
from nvshare.schedsim.machine import Machine
from nvshare.schedsim.mixes import Contender, random_mix


class StartError(Record, frozen=True):
    """One wait: what was expected when it began, and how long it was, in seconds."""

    expected_s: float
    waited_s: float

    @property
    def late_s(self) -> float:
        return self.waited_s - self.expected_s


class StartErrors:
    """Watches a machine."""

    def __init__(self, machine: Machine) -> None:
        self.found: list[StartError] = []
        self._machine = machine
        self._told: dict[tuple[int, str], tuple[int, int]] = {}
        machine.observers.append(self._observe)

    def _observe(self, now: int, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, QueueClient):
                gpu = self._machine.node.gpus[action.gpu]
                expected = expected_starts(gpu.turns, gpu.memory, now).get(action.client)
                if expected is not None:
                    self._told[action.client, action.gpu] = (now, expected)
            elif isinstance(action, GiveLock):
                told = self._told.pop((action.client, action.gpu), None)
                if told is not None:
                    self.found.append(StartError(told[1] / SECOND, (now - told[0]) / SECOND))


def measure(seeds: Iterable[int], contender: Contender) -> list[StartError]:
    """The errors of all waits in these random mixes."""
    found = []
    for seed in seeds:
        mix = random_mix(seed)
        machine = Machine(mix.cards, list(mix.jobs), contender.settings, gate=contender.gate)
        errors = StartErrors(machine)
        machine.run()
        found += errors.found
    return found


class Figures(Record, frozen=True):
    """Of all waits: the part that ended by the expected time (and a second), by half as long again, the errors, and the
    median of the wait as a part of the expected time."""

    waits: int
    by_then: float
    by_then_and_half: float
    median_late_s: float
    p90_late_s: float
    median_part: float


def figures(errors: list[StartError]) -> Figures:
    late = sorted(error.late_s for error in errors) or [0.0]
    parts = sorted(error.waited_s / error.expected_s for error in errors if error.expected_s) or [0.0]
    return Figures(
        waits=len(errors),
        by_then=sum(error.late_s <= 1 for error in errors) / max(1, len(errors)),
        by_then_and_half=sum(error.late_s <= 1 + error.expected_s / 2 for error in errors) / max(1, len(errors)),
        median_late_s=late[len(late) // 2],
        p90_late_s=late[len(late) * 9 // 10],
        median_part=parts[len(parts) // 2],
    )
