"""What must hold of priorities: docs/decisions/0017, counted again over all running clients."""

from collections.abc import Collection, Mapping

from core.naive_gpu import NaiveGpu, NaiveSeat
from nvshare.core.model import GIB
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


def check_drop(now: int, uuid: str, client: int, node: Node, new_members: Collection[Seat]) -> None:
    """A lock is taken before the quantum is over. The others of its gang drop theirs too. One that joined a gang in
    this step may have taken the lock alone before."""
    its = node.gpus[uuid].turns.seats[client]
    rank = its.outranked_rank
    assert rank is not None, "a client that is outranked keeps its rank"
    members = _members(its, uuid)
    holding = [seat for seat in members.values() if seat.lock]
    lowest = min(seat.won_rank or 0 if seat.lock else seat.rank or 0 for seat in members.values() if _counts(seat))
    assert lowest <= rank, "a client that was outranked has waited"
    for seat in holding:
        assert seat.won_rank is not None
        assert rank - seat.won_rank <= now - seat.held_since, "only time with a lock does not count as waiting"
    highest = max(seat.priority for seat in members.values())
    dropping = [node.gpus[at].turns for at, seat in members.items() if seat.state == "dropping"]
    firsts = [(first, first.rank) for turns in dropping if (first := turns.queue.first()) is not None]
    for turns in dropping:  # A gang may have been blocked since, in this step.
        firsts += [(seat, seat.kept_rank) for seat in turns.blocked.values() if seat.gang is not None]
    assert any(
        (first.priority if first in new_members else _lowest_priority(first)) > highest
        and first_rank is not None
        and first_rank < rank
        for first, first_rank in firsts
    ), "only a higher priority takes a lock, and not of a client that waited long enough"


def check_first(gpu: NaiveGpu, first: NaiveSeat, real: Turns, safe: int) -> None:
    """If those whom the first in the queue outranks are enough, some of them have been told to drop their locks."""
    is_made = gpu.taken("staying") + gpu.need(first) <= safe
    assert is_made or not _outranks_enough(gpu, first, real, safe), (
        "a client that outranks those that run does not wait for the end of their quantum"
    )


def check_gangs(gpus: Mapping[str, NaiveGpu], node: Node) -> None:
    """The same of gangs that are first at all their GPUs."""
    for gang in node.gangs.all.values():
        waiting = gang.waiting()
        is_away = any(node.gpus[uuid].turns.dropping or node.gpus[uuid].may_block(waiting[uuid]) for uuid in waiting)
        if gang.stage != "ready" or is_away:
            continue
        for uuid, seat in waiting.items():
            gpu, real = gpus[uuid], node.gpus[uuid]
            first, safe = gpu.seats[seat.client], real.memory.safe_limit
            is_made = gpu.taken("staying") + gpu.need(first) <= safe
            if not is_made and not _outranks_enough(gpu, first, real.turns, safe):
                break
        else:
            raise AssertionError("a gang that outranks those who run does not wait for the end of their quanta")


def _outranks_enough(gpu: NaiveGpu, first: NaiveSeat, real: Turns, safe: int) -> bool:
    if not real.ranking.preempts:
        return False
    staying = gpu.named("staying")
    outranked = [seat for seat in staying if _is_outranked(real.seats[seat.client], real.seats[first.client], real)]
    left = gpu.taken("staying") - sum(gpu.need(seat) for seat in outranked)
    return bool(outranked) and (len(outranked) == len(staying) or left + gpu.need(first) <= safe)


def _is_outranked(seat: Seat, first: Seat, real: Turns) -> bool:
    """By the rank of the member of its gang that waited longest, without the time for which all of it was served."""
    assert first.rank is not None
    members = _members(seat, real.uuid).values()
    if _lowest_priority(first) <= max(member.priority for member in members):
        return False
    for member in filter(_counts, members):
        rank = member.rank
        if member.lock:
            move_ns = member.need * real.mode.move_cost_ns // GIB
            served_ns = max(0, first.waited_since - member.held_since - move_ns)
            rank = None if member.won_rank is None else member.won_rank + served_ns
        if rank is None or rank <= first.rank:
            return False
    return True


def _members(seat: Seat, uuid: str) -> dict[str, Seat]:
    return {uuid: seat} if seat.gang is None else seat.gang.seats


def _counts(seat: Seat) -> bool:
    return seat.lock != 0 or seat.rank is not None


def _lowest_priority(seat: Seat) -> int:
    return min(member.priority for member in _members(seat, "").values())
