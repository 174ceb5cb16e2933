"""The ends of many connections at once do not keep others waiting."""

import asyncio

import pytest

from nvshare.scheduler.clients import leaving
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission

ENDS = 20


def test_others_are_served_between_the_ends_of_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "MOST_NS", 0)
    happened: list[str | int] = []

    async def run() -> None:
        admission = ConnectionAdmission(max_connections=10, max_per_account=10)
        for number in range(ENDS):
            admission.end(None, lambda it=number: happened.append(it))  # type: ignore[misc]
        assert happened == [0], "the first one ends at once"
        while len(happened) < 2 * ENDS:
            happened.append("served")
            await asyncio.sleep(0)

    asyncio.run(run())
    assert [one for one in happened if one != "served"] == list(range(ENDS)), "in their order"
    assert max(happened.index(number + 1) - happened.index(number) for number in range(ENDS - 1)) == 2
    assert happened.index(ENDS - 1) >= 2 * (ENDS - 1)


def test_an_end_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "MOST_NS", 0)
    ended: list[int] = []

    async def run() -> None:
        departures = leaving.Departures()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        departures.do(lambda: ended.append(1))
        departures.do(lambda: ended.remove(7))
        departures.do(lambda: ended.append(2))
        while len(ended) < 2:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == [1, 2]
