"""NVML's utilisation beside what clients account for in the same seconds."""

from nvshare.core import events as ev
from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.utilization import LONGEST_NS, Utilization
from nvshare.core.model import GIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.core.turns.seat import Seat

ALL = (1 << 200) - 1


def at(seconds: float) -> int:
    return int(seconds * SECOND)


class Card:
    """A GPU whose only client is busy in the first part of each 200 ms; NVML is asked every 2 s."""

    def __init__(self) -> None:
        self.gpu_time, self.seat = GpuTime(), Seat(1, 0, 100)
        self.utilization = Utilization(self.gpu_time)

    def works(self, begin: int, end: int, busy_looks: int) -> None:
        """In seconds."""
        self.gpu_time.turn_began(at(begin), self.seat)
        for first in range(begin * 1000, end * 1000, 200):
            self.gpu_time.reported((first + 200) * LOOK_NS, self.seat, first, 200, (1 << busy_looks) - 1)
        self.gpu_time.turn_ended(at(end), self.seat)

    def asked(self, begin: int, end: int, percent: int) -> None:
        for second in range(begin, end + 1, 2):
            self.utilization.measured(at(second), percent)

    def shown(self, second: float) -> tuple[int, int] | None:
        """NVML's and the clients' figure, after GpuTimeAsked."""
        self.gpu_time.divide(at(second))
        found = self.utilization.compared(at(second))
        return None if found is None else (round(found.utilization), round(found.accounted))


def test_without_a_reading_there_is_nothing_to_compare_with() -> None:
    card = Card()
    card.works(10, 30, 100)
    assert card.shown(31) is None


def test_both_figures_are_of_the_same_seconds() -> None:
    card = Card()
    card.works(10, 40, 100)
    card.asked(10, 40, 50)
    assert card.shown(40) == (50, 50)
    assert card.shown(41.9) == (50, 50)


def test_work_of_others_is_what_nvml_has_more() -> None:
    card = Card()
    card.works(10, 40, 60)
    card.asked(10, 40, 90)
    assert card.shown(41) == (90, 30)


def test_a_client_that_begins_and_ends_is_compared_over_the_same_time() -> None:
    card = Card()
    card.asked(10, 20, 0)
    card.works(20, 24, 200)
    card.asked(22, 24, 100)
    assert card.shown(24.7) == (40, 40)
    card.asked(26, 28, 0)
    assert card.shown(29) == (40, 40)
    card.asked(30, 32, 0)
    assert card.shown(33) == (20, 20)


def test_looks_that_are_not_divided_up_yet_are_replaced_by_those_before() -> None:
    card = Card()
    card.gpu_time.turn_began(at(10), card.seat)
    for first in range(10_000, 20_000, 200):
        card.gpu_time.reported((first + 200) * LOOK_NS, card.seat, first, 200, ALL)
    card.asked(12, 20, 100)
    assert card.shown(20) == (100, 100)


def test_after_a_time_without_readings_all_begins_again() -> None:
    card = Card()
    card.asked(10, 20, 100)
    assert card.shown(20 + 9) == (100, 0)
    assert card.shown(20 + 11) is None
    card.utilization.measured(at(20) + LONGEST_NS + 1, 30)
    assert card.shown(26) == (30, 0)


def test_a_reading_of_the_same_moment_counts_once() -> None:
    card = Card()
    card.utilization.measured(at(10), 40)
    card.utilization.measured(at(10), 90)
    assert card.shown(10) == (40, 0)


def test_a_snapshot_has_both_figures() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", (Claim("g0", 10 * GIB),)))
    node.handle(at(9), ev.LockRequested(1, "g0", Memory(swappable=GIB)))
    [gpu] = snapshot(node, at(9)).gpus
    assert (gpu.utilization_percent, gpu.accounted_percent) == (None, None)
    for second in range(10, 30, 2):
        assert node.handle(at(second), ev.UtilizationMeasured("g0", 80)) == []
    [gpu] = snapshot(node, at(29)).gpus
    assert (gpu.utilization_percent, gpu.accounted_percent) == (80, 100)
