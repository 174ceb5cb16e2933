"""Policy fair: what each client of a GPU is due of its time now. For display only: no decision depends on it.

Clients that have work compete: they wait, work, or are held back because they had enough.

    due of a client = 100 % * weight / Σ weights of all who compete

The clients of a group are together due no more than its core limit. What this leaves is divided in the same way among
the other groups. A paused client, one that the host has no room for, and one without work are due nothing."""

from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


def due_percents(turns: Turns) -> dict[int, float]:
    """By client, of those who compete; nobody if the policy ignores weights."""
    if not turns.ranking.fair_shares.are_kept:
        return {}
    groups: dict[str, list[Seat]] = {}
    for seat in turns.seats.values():
        if _competes(turns, seat):
            groups.setdefault("" if seat.group is None else seat.group.key, []).append(seat)
    weighed = [(_limit(turns, seats), sum(map(_weight, seats)), seats) for seats in groups.values()]
    left, weights = 100.0, sum(weight for _, weight, _ in weighed)
    dues: dict[int, float] = {}
    for limit, weight, seats in sorted(weighed, key=lambda group: group[0] / group[1]):
        due = min(limit, left * weight / weights)  # The groups that reach their limits come first.
        left, weights = left - due, weights - weight
        dues |= {seat.client: due * _weight(seat) / weight for seat in seats}
    return dues


def _competes(turns: Turns, seat: Seat) -> bool:
    if seat.client in turns.no_turns.paused:
        return False
    if seat.state == "blocked":
        return turns.no_turns.has_had_enough(seat)
    is_resting = seat.looks is not None and seat.looks.rests is not None
    return seat.is_waiting or (bool(seat.lock) and seat.idle_since is None and not is_resting)


def _weight(seat: Seat) -> int:
    return max(1, seat.weight)


def _limit(turns: Turns, seats: list[Seat]) -> int:
    """Of the group of these."""
    group = seats[0].group
    return (0 if group is None else group.core_limit_on(turns.uuid)) or 100
