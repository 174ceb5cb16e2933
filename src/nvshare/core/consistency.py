"""The invariants of one GPU's turns at the end of every step, with all sums computed again; for tests."""

from typing import get_args

from nvshare.core.turns.seat import Seat, State
from nvshare.core.turns.turns import Turns


def check(turns: Turns, unheard: set[int]) -> None:
    by_state: dict[State, dict[int, Seat]] = {state: {} for state in get_args(State)}
    for seat in turns.seats.values():
        by_state[seat.state][seat.client] = seat
        assert seat.memory == turns.reports.counted(seat), "only what counts is counted"
        assert seat.need == turns.reports.needed(seat, seat.memory), "what a client needs is what counts of it"
        assert bool(seat.lock) == (seat.state in ("staying", "dropping"))
        assert bool(seat.drop_deadline) == (seat.state == "dropping")
        assert (seat.rank is not None) == (seat.state == "waiting")
    assert by_state["staying"] == turns.staying
    assert by_state["dropping"] == turns.dropping
    assert by_state["waiting"] == {seat.client: seat for seat in turns.queue}
    assert by_state["blocked"] == turns.blocked
    assert by_state["silent"].keys() <= unheard
    assert turns.idle == {key: seat for key, seat in turns.staying.items() if seat.idle_since is not None}
    assert (turns.timer.ends is not None) == (not turns.is_empty)
    assert not turns.waits.begun
    assert not turns.waits.late_claims
    assert turns.waits.unreported.keys() <= by_state["waiting"].keys() | turns.blocked.keys()
    turns.queue.check()
    turns.ranking.fair_shares.check({seat.client: seat for seat in turns.seats.values() if _competes(turns, seat)})


def _competes(turns: Turns, seat: Seat) -> bool:
    return bool(seat.lock) or seat.is_waiting or (seat.state == "blocked" and turns.no_turns.keeps_competing(seat))
