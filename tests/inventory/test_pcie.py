"""What a bulk copy gets of a PCIe link."""

import pytest

from nvshare.inventory.pcie import Link, link
from nvshare.simgpu.cards import CARDS


@pytest.mark.parametrize(
    ("generation", "width", "gb_per_s"),
    [(3, 16, 12.3), (4, 16, 24.6), (5, 16, 49.1), (4, 8, 12.3), (3, 1, 0.77), (1, 16, 3.1), (6, 16, 94.4)],
)
def test_a_copy_gets_most_of_what_the_link_carries(generation: int, width: int, gb_per_s: float) -> None:
    made = link(generation, width)
    assert made is not None
    assert made.copy_bytes_per_s / 1e9 == pytest.approx(gb_per_s, rel=0.01)


@pytest.mark.parametrize(("card", "generation"), [("p100", 3), ("t4", 3), ("a100", 4), ("h100", 5)])
def test_it_is_about_what_is_published_of_known_cards(card: str, generation: int) -> None:
    assert Link(generation, 16).copy_bytes_per_s == pytest.approx(CARDS[card].link, rel=0.03)


@pytest.mark.parametrize(
    ("generation", "width"),
    [(None, 16), (4, None), (None, None), (0, 16), (4, 0), (7, 16), (4, 5), (0xFFFFFFFF, 0xFFFFFFFF), (-1, 16)],
)
def test_what_no_link_has_is_not_believed(generation: int | None, width: int | None) -> None:
    assert link(generation, width) is None


def test_a_link_is_called_as_people_call_it() -> None:
    assert str(Link(4, 16)) == "PCIe 4 x16"
