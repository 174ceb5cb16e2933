"""Two answers that other parts rely on, asked directly."""

from types import SimpleNamespace

from nvshare.core import events as ev
from nvshare.core.compute.core_cap import MOST_AHEAD_NS
from nvshare.core.gangs.gangs import Gangs
from nvshare.core.model import GIB, SECOND, Settings
from nvshare.core.node import Node


def test_a_core_limit_holds_a_group_back_until_the_work_of_one_turn_is_repaid() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    assert node.gpus["g0"].compute_shares.longest_hold_ns(50, SECOND, SECOND) == 2 * (MOST_AHEAD_NS + 2 * SECOND)


def test_members_that_could_not_work_until_now_begin_their_pause_again() -> None:
    restarted: list[tuple[int, object]] = []
    pauses = SimpleNamespace(restarted=lambda now, seat: restarted.append((now, seat)))
    gpus = {uuid: SimpleNamespace(turns=SimpleNamespace(idle=idle, pauses=pauses)) for uuid, idle in IDLE.items()}
    seats = {uuid: SimpleNamespace(client=1) for uuid in IDLE}
    entered = SimpleNamespace(gang=SimpleNamespace(seats=seats))
    Gangs.note_entered(SimpleNamespace(_gpus=gpus), SECOND, entered)  # type: ignore[arg-type]
    assert restarted == [(SECOND, seats["g0"])]


IDLE: dict[str, set[int]] = {"g0": {1}, "g1": set()}
