"""What the naive account takes from the core about gangs, and what must hold for them at the end of every step."""

from typing import TYPE_CHECKING

from core import naive_priorities, naive_room
from core.naive_gpu import NaiveGpu, NaiveSeat
from nvshare.core import actions as ac
from nvshare.core.gangs.gang import Gang
from nvshare.core.gpu import Gpu
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns

if TYPE_CHECKING:
    from core.naive import Naive


def note(naive: "Naive", now: int, node: Node) -> None:
    """The members that follow, or no longer do."""
    naive.has_gangs = naive.has_gangs or bool(node.gangs.all)
    naive.may_follow = naive.had_gangs or bool(node.gangs.all)
    naive.had_gangs = bool(node.gangs.all)
    gang_of = {seat: gang.number for gang in node.gangs.all.values() for seat in gang.seats.values()}
    naive.new_members = {seat for seat, number in gang_of.items() if naive.gang_of.get(seat) != number}
    naive.gang_of = gang_of
    for uuid, gpu in naive.gpus.items():
        for seat in gpu.seats.values():
            real = node.gpus[uuid].turns.seats[seat.client]
            if real.follows and seat.state == "rest":
                naive.start_wait(now, seat, gpu)
            elif seat.follows and seat.state in ("waiting", "blocked") and real.state == "rest":
                seat.state = "rest"
            seat.follows = real.follows


def note_given(naive: "Naive", now: int, gpu: NaiveGpu, seat: NaiveSeat, real: Turns) -> None:
    """It may have begun to follow in this step."""
    if seat.state == "rest" and real.seats[seat.client].gang is not None:
        naive.start_wait(now, seat, gpu)


def waited_for_a_moment(seat: NaiveSeat, real: Seat) -> bool:
    """In this step: a member of its gang wanted to work and was admitted, or it was first and its gang cannot be."""
    return seat.state in ("rest", "blocked") and seat.state == real.state and may_be_member(real)


def note_passing(naive: "Naive", uuid: str, passer: NaiveSeat, node: Node) -> None:
    queue = naive.queue(uuid, naive.gpus[uuid], node)
    if passer.rank is None:  # It asked and was admitted within one step; nobody but the core knows its rank.
        for other in queue:
            other.may_have_passes += 1
        return
    for other in queue:
        if other is passer:
            return
        if node.gpus[uuid].turns.seats[other.client].gang is not None:
            continue  # A gang is passed over until its own time has come.
        other.passes += 1
        other.may_have_passes += 1
        assert other.passes <= naive.settings.most_passes, "nobody is passed more often than that"


def check_passes(gpu: NaiveGpu, real: Turns) -> None:
    """A client that waits for room on the card passes nobody until it gets its lock."""
    for seat in gpu.named("waiting", "blocked"):
        counted = real.seats[seat.client]
        if not may_be_member(counted):
            assert counted.passes <= seat.may_have_passes, "nobody is passed by a client that gets no lock"


def check(naive: "Naive", now: int, actions: list[ac.Action], node: Node) -> None:
    if naive.is_scheduling and not node.is_settling and node.gangs.deadline > now:
        naive_priorities.check_gangs(naive.gpus, node)
    dropped = {(one.client, one.gpu) for one in actions if isinstance(one, ac.DropLock) and one.cause != "claim"}
    given = {(one.client, one.gpu) for one in actions if isinstance(one, ac.GiveLock)}
    for gang in node.gangs.all.values():
        assert len(gang.seats) > 1, "one alone is no gang"
        for uuid, seat in gang.seats.items():
            assert seat.gang is gang
            assert node.clients[seat.client].seats[uuid] is seat, "a member has not left"
        if dropped & {(seat.client, uuid) for uuid, seat in gang.seats.items()}:
            held = {uuid: seat for uuid, seat in gang.seats.items() if seat.state == "staying"}
            kept = [uuid for uuid, seat in held.items() if gang.is_job or _is_wanted(node, uuid, gang)]
            kept = [uuid for uuid in kept if (held[uuid].client, uuid) not in given]
            assert not kept, "locks of a gang are dropped together, but for those that nobody else waits for"
        if gang.stage == "entering" and gang.waiting() and not node.is_settling:
            has_room = all(node.gpus[uuid].admission.has_room(seat) for uuid, seat in gang.waiting().items())
            assert not has_room, "a gang is admitted as soon as there is room at all its GPUs"


def check_queue(now: int, gpu: NaiveGpu, real: Turns, safe: int, *, is_alarm_late: bool) -> None:
    """A client waits for a reason only. Members of gangs may wait for another GPU, and everybody for a late alarm."""
    first = real.queue.first()
    is_kept = real.waits.is_withheld or (first is not None and first.is_entering)
    is_made = [naive_room.is_made(gpu, now, gpu.seats[seat.client]) for seat in real.queue]
    waits_for_room = is_alarm_late or not all(is_made)
    if any(not seat.follows and not seat.enters_with_gang for seat in real.queue):
        assert is_kept or waits_for_room or gpu.named("staying", "dropping"), (
            "nobody waits for a GPU on which nobody runs"
        )
    if first is not None and first.gang is None and not real.waits.is_withheld:
        crowded = gpu.taken("staying", "dropping") + gpu.need(gpu.seats[first.client])
        assert crowded > safe or waits_for_room, "nobody waits while it fits and it is its turn"
        if crowded <= safe or not gpu.named("staying", "dropping"):
            naive_room.check_first(gpu, now, gpu.seats[first.client], is_alarm_late=is_alarm_late)
        if not is_alarm_late:
            naive_priorities.check_first(gpu, gpu.seats[first.client], real, safe)
    naive_room.note_waits(gpu, now)


def check_host(now: int, gpu: NaiveGpu, seat: NaiveSeat, real: Gpu) -> None:
    """One of those who block each other runs next. It may still wait: a member for its gang, others for room. Which
    clients did not make room in time is known at the next alarm."""
    if real.deadline <= now:
        return
    is_next = real.turns.seats[seat.client].gang is not None or (
        gpu.is_on_card(seat) and not naive_room.is_made(gpu, now, seat)
    )
    assert is_next or not gpu.must_wait(now, seat), "nobody's turn evicts what the host cannot take"


def _is_wanted(node: Node, uuid: str, gang: Gang) -> bool:
    return any(seat.gang is not gang for seat in node.gpus[uuid].turns.queue)


def may_be_member(seat: Seat) -> bool:
    """Of a gang, with the rank of another member."""
    return len(seat.siblings) > 1 or _may_be_of_a_job(seat)


def check_place(gpu: NaiveGpu, real: Turns, queue: list[NaiveSeat], action: ac.QueueClient) -> None:
    """A blocked client is told the place behind the last. It may be in the queue again at the end of the step."""
    seat, its = gpu.seats[action.client], real.seats[action.client]
    before = queue.index(seat) if seat in queue else len(queue)
    was_blocked = its.rank is not None and its.rank == its.kept_rank
    followers = _may_have_followed(gpu, real, queue)
    behind = len(queue) - 1
    more = [action.place - 1 - before, *([action.place - 1 - behind] if was_blocked else [])]
    assert any(0 <= one <= followers for one in more), "a client that waits is told its place"


def _may_have_followed(gpu: NaiveGpu, real: Turns, queue: list[NaiveSeat]) -> int:
    """How many others may have waited for a moment in this step, because a process of their job began to wait."""
    others = (real.seats[client] for client, seat in gpu.seats.items() if seat not in queue)
    return sum(_may_be_of_a_job(seat) for seat in others)


def _may_be_of_a_job(seat: Seat) -> bool:
    return seat.group is None or seat.group.key == "run/job"
