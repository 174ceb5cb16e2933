"""What must hold of priorities: docs/decisions/0017, counted again over all running clients."""

from core.naive_gpu import NaiveGpu, NaiveSeat
from nvshare.core.model import GIB
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns


def check_drop(now: int, seat: NaiveSeat, real: Turns) -> None:
    """A lock is taken before the quantum is over."""
    its = real.seats[seat.client]
    rank = its.outranked_rank
    assert rank is not None, "who is outranked keeps its rank"
    assert its.won_rank is not None
    assert 0 <= rank - its.won_rank <= now - its.held_since, "only time with a lock does not count as waiting"
    first = real.queue.first()
    assert first is not None, "somebody waits for the lock"
    assert first.priority > its.priority, "only a higher priority takes a lock"
    assert first.rank is not None
    assert first.rank < rank, "who waited long enough is not outranked"


def check_first(gpu: NaiveGpu, first: NaiveSeat, real: Turns, safe: int) -> None:
    """If those whom the first in the queue outranks are enough, some of them have been told to drop their locks."""
    if not real.ranking.preempts or gpu.taken("staying") + gpu.need(first) <= safe:
        return
    staying = gpu.named("staying")
    outranked = [seat for seat in staying if _is_outranked(real.seats[seat.client], real.seats[first.client], real)]
    left = gpu.taken("staying") - sum(gpu.need(seat) for seat in outranked)
    is_enough = len(outranked) == len(staying) or left + gpu.need(first) <= safe
    assert not outranked or not is_enough, "who outranks those who run does not wait for the end of their quantum"


def _is_outranked(seat: Seat, first: Seat, real: Turns) -> bool:
    assert first.rank is not None
    if first.priority <= seat.priority or seat.won_rank is None or seat.gang is not None:
        return False
    move_ns = seat.need * real.mode.move_cost_ns // GIB
    return first.rank < seat.won_rank + max(0, first.waited_since - seat.held_since - move_ns)
