"""Which running clients keep room for what they have freed, counted by the naive account (core.memory.regrowth)."""

from core.naive_gpu import NaiveGpu
from nvshare.core.actions import EndTurn
from nvshare.core.turns.turns import Turns

RUNNING = ("staying", "dropping")


def note_needs(gpu: NaiveGpu) -> None:
    """After each event: how what running clients use has changed in this turn."""
    for seat in gpu.named(*RUNNING):
        own = gpu.own(seat)
        if seat.turn_of != seat.lock:
            seat.turn_of, seat.most, seat.least, seat.has_regrown = seat.lock, own, own, False
        elif own >= seat.most:
            seat.has_regrown |= seat.least < seat.most
            seat.most = seat.least = own
        elif own < seat.least:
            seat.least = own
        else:
            seat.has_regrown |= 2 * (own - seat.least) >= seat.most - seat.least


def note_crowded(gpu: NaiveGpu, safe: int) -> None:
    """A client leaves because the staying clients do not fit together, here or at another GPU of its gang."""
    for seat in gpu.named("staying") if gpu.taken("staying") > safe else []:
        own = gpu.own(seat)
        if not seat.keeps_room and not seat.has_regrown and own > seat.least:
            seat.most = seat.least = own
            seat.has_regrown = True
        seat.keeps_room |= seat.has_regrown


def check(gpu: NaiveGpu, real: Turns) -> None:
    for seat in gpu.seats.values():
        assert seat.keeps_room == real.seats[seat.client].keeps_room, (
            "room is kept for a client that frees memory for a moment"
        )


def note_end(gpu: NaiveGpu, action: EndTurn) -> None:
    seat = gpu.seats.get(action.client)
    if seat is not None:  # It has not left.
        seat.keeps_room &= seat.has_regrown or seat.least == seat.most
