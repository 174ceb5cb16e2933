"""What a story does not show of gangs."""

from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node

GPUS = ("g0", "g1", "g2")


def test_no_gang_is_left_when_scheduling_is_switched_off() -> None:
    """Not even one of three GPUs."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for gpu in GPUS:
        node.handle(0, ev.GpuFound(gpu, 10 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", tuple(Claim(gpu, 10 * GIB) for gpu in GPUS)))
    node.handle(0, ev.ClientRegistered(2, "run/2", "x", "x", (Claim(GPUS[2], 10 * GIB),)))
    node.handle(0, ev.LockRequested(2, GPUS[2], Memory(6 * GIB)))
    for gpu in GPUS:
        node.handle(SECOND, ev.LockRequested(1, gpu, Memory(6 * GIB)))
    assert [list(gang.seats) for gang in node.gangs.all.values()] == [list(GPUS)]
    node.handle(SECOND, ev.SchedulingSwitched(False))
    assert node.gangs.all == {}
    assert {seat.gang for seat in node.clients[1].seats.values()} == {None}
