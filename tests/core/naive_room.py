"""What the account knows of the room on the card (core.memory.card_room): who can have how much, who still moves."""

from typing import TYPE_CHECKING

from nvshare.core import actions as ac
from nvshare.core import events as ev

if TYPE_CHECKING:
    from core.naive import Naive
    from core.naive_gpu import NaiveGpu, NaiveSeat


def on_card(gpu: "NaiveGpu", seat: "NaiveSeat") -> int:
    """Of its memory, at most, now."""
    return gpu.on_card(seat) if _has_lock(seat) else min(gpu.on_card(seat), seat.resident)


def _has_lock(seat: "NaiveSeat") -> bool:
    return seat.state in ("staying", "dropping")


def _movable(gpu: "NaiveGpu", seat: "NaiveSeat") -> int:
    return min(gpu.swappable(seat), max(0, seat.host_room - min(seat.held, seat.keep)))


def _may_go(gpu: "NaiveGpu", now: int, seat: "NaiveSeat") -> bool:
    """Some of it can still leave the card: it moves, or could be asked to. All clients of these worlds can."""
    if _has_lock(seat) or seat.room_due > now:
        return True
    if seat.room_due:
        return False  # It did not answer in time.
    is_left = on_card(gpu, seat) > gpu.on_card(seat) - _movable(gpu, seat)
    runs = seat.revoked or seat.late is not None
    return not runs and seat.room_asked < _movable(gpu, seat) and is_left


def stuck(gpu: "NaiveGpu", now: int, coming: "NaiveSeat") -> int:
    """What others have on the card beside what the host cannot take, and do not move. What the driver may evict of the
    one with the least of that is no problem."""
    others = [seat for seat in gpu.seats.values() if seat is not coming]
    sizes = [0 if _may_go(gpu, now, seat) else max(0, on_card(gpu, seat) - gpu.protected(seat)) for seat in others]
    spare = [size for seat, size in zip(others, sizes, strict=True) if gpu.lacking(seat)]
    return sum(sizes) - min(spare, default=0)


def is_made(gpu: "NaiveGpu", now: int, coming: "NaiveSeat") -> bool:
    """No memory is evicted that the host cannot take, whatever the driver chooses; or no more can be done for that."""
    seats = list(gpu.seats.values())
    there = [gpu.on_card(seat) if seat is coming else on_card(gpu, seat) for seat in seats]
    free = gpu.size - gpu.card_reserve - gpu.taken() + sum(gpu.pinned(seat) for seat in seats)
    is_safe = all(
        sum(there) - max(0, size - gpu.lacking(seat)) <= free
        for seat, size in zip(seats, there, strict=True)
        if gpu.lacking(seat)
    )
    spare = [max(0, size - gpu.lacking(seat)) for seat, size in zip(seats, there, strict=True)]
    lacking = [index for index, seat in enumerate(seats) if gpu.lacking(seat)]
    spared = seats[min(lacking, key=lambda index: spare[index])] if lacking else None
    others = [seat for seat in seats if seat is not coming and seat is not spared and seat.state != "staying"]
    return is_safe or not any(_may_go(gpu, now, seat) for seat in others)


def _is_long(gpu: "NaiveGpu", now: int, since: int | None) -> bool:
    return since is not None and now - since >= gpu.grace_ns


def check_given(gpu: "NaiveGpu", now: int, coming: "NaiveSeat") -> None:
    """It gets its lock. The others have time again to make room for the next one."""
    may_come = is_made(gpu, now, coming) or _is_long(gpu, now, coming.room_since)
    assert may_come, "nobody is admitted while others still make room for it"
    for seat in gpu.seats.values():
        seat.room_since = seat.head_since = None


def check_first(gpu: "NaiveGpu", now: int, first: "NaiveSeat", *, is_alarm_late: bool) -> None:
    """It is first in the queue, and fits beside those who run."""
    is_over = _is_long(gpu, now, first.head_since)
    assert is_alarm_late or not is_over, "nobody waits for room for longer than the grace time"
    if first.head_since is None and not gpu.named("dropping") and not is_made(gpu, now, first):
        first.head_since = now


def note_waits(gpu: "NaiveGpu", now: int) -> None:
    for seat in gpu.seats.values():
        if seat.state != "waiting":
            seat.room_since = seat.head_since = None
        elif seat.room_since is None and not is_made(gpu, now, seat):
            seat.room_since = now


def note_answer(naive: "Naive", now: int, event: ev.RoomMade) -> None:
    seat = naive.seat(event.client, event.gpu)
    if not _has_lock(seat):
        seat.resident, seat.room_due = min(seat.resident, event.left), 0


def note_asked(naive: "Naive", now: int, action: ac.MoveOut, node: object) -> None:
    seat, gpu = naive.seat(action.client, action.gpu), naive.gpus[action.gpu]
    assert action.most <= _movable(gpu, seat), "nobody moves more than it has, or than the host can take"
    if action.lock:
        seat.asked_out = action.most
        return
    assert not _has_lock(seat), "a client that has a lock moves nothing before it has released it"
    assert action.most > seat.room_asked, "nobody is asked twice for the same"
    assert not 0 < seat.room_due <= now, "a client that did not answer in time is not asked again"
    seat.room_asked, seat.room_due = action.most, seat.room_due or now + naive.settings.grace_ns
    if any(gpu.lacking(other) for other in gpu.seats.values()):  # Otherwise nobody waits for it.
        naive.allow(gpu, naive.settings.grace_ns)


def note_end(naive: "Naive", now: int, action: ac.EndTurn) -> None:
    gpu = naive.gpus[action.gpu]
    if action.client in gpu.seats:
        seat = gpu.seats[action.client]
        seat.ended, seat.resident = now, 1 << 64
        seat.room_asked = 0 if action.end == "revoked" else seat.asked_out
        seat.room_due = now + naive.settings.grace_ns if seat.room_asked else 0
        seat.asked_out = 0
        if any(gpu.lacking(other) for other in gpu.seats.values()):  # Otherwise nobody waits for it.
            naive.allow(gpu, naive.settings.grace_ns)
