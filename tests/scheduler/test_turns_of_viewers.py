"""Whose piece is made next: owners in turn, and the viewers of an owner in the order in which they asked."""

import asyncio
from collections.abc import Iterator

import pytest

from nvshare.scheduler import pieces
from nvshare.scheduler.pieces import Owner, Pieces

PIECES = 3


@pytest.fixture(autouse=True)
def one_item_in_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)


def order(*viewers: str, gone: tuple[str, ...] = (), after: int = 0) -> list[str]:
    """The viewers of which pieces were made, in this order. The first letter is the owner's name; those who are `gone`
    disconnect when so many pieces were made."""
    made: list[str] = []

    def work(viewer: str) -> Iterator[None]:
        for _ in range(PIECES):
            made.append(viewer)
            yield

    async def main() -> None:
        shared = Pieces()
        tasks = {viewer: asyncio.create_task(shared.all_of(work(viewer), Owner(viewer[0]))) for viewer in viewers}
        while len(made) < after:
            await asyncio.sleep(0)
        for viewer in gone:
            tasks[viewer].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert await shared.all_of([1, 2], Owner("z")) == [1, 2], "the turn is free again"

    asyncio.run(asyncio.wait_for(main(), 60))
    return made


def test_every_second_piece_is_for_the_only_viewer_of_an_owner() -> None:
    assert order("a1", "a2", "a3", "b")[:7] == ["a1", "b", "a2", "b", "a3", "b", "a1"]


@pytest.mark.parametrize("others", [1, 5, 40])
def test_how_many_viewers_another_owner_has_changes_nothing(others: int) -> None:
    made = order(*(f"a{number}" for number in range(others)), "b")
    assert [number for number, viewer in enumerate(made) if viewer == "b"] == [1, 3, 5]


def test_a_viewer_that_comes_again_and_again_waits_for_one_piece_of_each_other_owner() -> None:
    made = order("a1", "a2", "b1", "b2", "c")
    assert [viewer[0] for viewer in made[:9]] == list("abcabcabc")


def test_the_viewers_of_one_owner_get_pieces_in_the_order_in_which_they_asked() -> None:
    assert order("a1", "a2", "a3") == ["a1", "a2", "a3"] * PIECES


@pytest.mark.parametrize("after", range(12))
@pytest.mark.parametrize("gone", [("a1",), ("a2",), ("b",), ("a1", "a2"), ("a1", "a2", "b")], ids="-".join)
def test_viewers_that_disconnect_take_no_turns_and_keep_none(gone: tuple[str, ...], after: int) -> None:
    made = order("a1", "a2", "b", "c", gone=gone, after=after)
    stayed = {"a1", "a2", "b", "c"} - set(gone)
    assert {viewer: made.count(viewer) for viewer in stayed} == dict.fromkeys(stayed, PIECES)
    assert not set(made[after + 1 :]) & set(gone), "at most the piece that was given already"


def test_a_disconnected_viewer_takes_no_turn_of_its_owner() -> None:
    assert order("c", "a1", "a2", "b", gone=("a1",), after=1)[:4] == ["c", "a2", "b", "c"]
