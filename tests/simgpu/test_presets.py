"""Known cards: the simulated driver, the table of figures and the documentation say the same."""

import re
from pathlib import Path

import pytest

from nvshare.schedsim.presets import PRESETS
from nvshare.simgpu.cards import CARDS
from simgpu.node import MakeNode
from support.simgpu_worker import GIB, MIB, Worker

SIZES_GIB = {"p100": 16, "t4": 15, "a100": 40, "h100": 80}
CONTEXT = 256 * MIB
DOCUMENT = Path(__file__).parents[2] / "docs" / "simulated-gpu.md"


def seconds_per_byte_of_evicting_faults(name: str) -> float:
    card = CARDS[name]
    return 1 / card.evicting if card.evicting else 1 / card.faults + 1 / card.link


@pytest.mark.parametrize("name", CARDS)
def test_a_known_card_has_its_memory_its_link_and_its_faults(make_node: MakeNode, checks: Path, name: str) -> None:
    figures = CARDS[name]
    with Worker(make_node(card=name, scale=0.01), checks) as worker:
        assert worker.ask("info").split()[1] == str(SIZES_GIB[name] * GIB)
        assert worker.ask(f"managed {2 * GIB}") == "0"
        first_touch, resident = worker.simulated_s("pass 1"), worker.simulated_s("pass 1")
        assert resident == pytest.approx(2 * GIB / figures.bandwidth, rel=0.02)
        assert first_touch - resident == pytest.approx(2 * GIB / figures.faults, rel=0.02)
        assert worker.simulated_s("evict") == pytest.approx(2 * GIB / figures.link, rel=0.02)
        assert worker.simulated_s("pass 1") - resident == pytest.approx(2 * GIB / figures.faults, rel=0.02)


@pytest.mark.parametrize("name", CARDS)
def test_on_a_full_known_card_faults_are_slower_by_what_eviction_takes(
    make_node: MakeNode, checks: Path, name: str
) -> None:
    figures = CARDS[name]
    with Worker(make_node(card=name, memory="4Gi", scale=0.01), checks) as worker:
        assert worker.ask(f"managed {2 * GIB}") == "0"
        worker.ask("pass 1")
        assert worker.ask(f"managed {3 * GIB}") == "0"
        evicting = 5 * GIB + CONTEXT - 4 * GIB
        free = 3 * GIB - evicting
        expected = evicting * seconds_per_byte_of_evicting_faults(name) + free / figures.faults
        assert worker.simulated_s("pass 1") == pytest.approx(expected + 3 * GIB / figures.bandwidth, rel=0.05)


def test_a_setting_has_precedence_over_the_known_card(make_node: MakeNode, checks: Path) -> None:
    with Worker(make_node(card="h100", memory="8Gi"), checks) as worker:
        assert worker.ask("info").split()[1] == str(8 * GIB)


@pytest.mark.parametrize("name", CARDS)
def test_the_simulators_card_has_the_same_speeds(name: str) -> None:
    model, figures = PRESETS[name], CARDS[name]
    assert model.evict is not None
    assert (model.bus, model.first_touch, model.link) == (figures.faults, figures.faults, figures.link)
    assert 1 / model.bus + 1 / model.evict == pytest.approx(seconds_per_byte_of_evicting_faults(name))
    assert model.size == pytest.approx(SIZES_GIB[name] * GIB, rel=0.01)


def bytes_per_second(text: str) -> float:
    if found := re.match(r"([\d.]+) GiB in ([\d.]+) s", text):
        return float(found[1]) * GIB / float(found[2])
    found = re.match(r"([\d.]+) GB/s", text)
    assert found is not None, text
    return float(found[1]) * 1e9


@pytest.mark.parametrize("name", CARDS)
def test_each_figure_of_a_known_card_is_documented_with_its_source(name: str) -> None:
    text = DOCUMENT.read_text()
    (row,) = re.findall(rf"^\| `{name}` \| (.+) \|$", text, re.MULTILINE)
    size, *speeds = row.split(" | ")
    assert size == f"{SIZES_GIB[name]} GiB"
    figures = CARDS[name]
    wanted = [figures.bandwidth, figures.link, figures.faults, *([figures.evicting] if figures.evicting else [])]
    assert [bytes_per_second(speed) for speed in speeds[: len(wanted)]] == pytest.approx(wanted, rel=0.002)
    assert all(speed == "fault, then eviction" for speed in speeds[len(wanted) :])
    for speed in speeds[: len(wanted)]:
        source = re.search(r"\[(\d)\]$", speed)
        assert source is not None, f"{speed} has no source"
        assert re.search(rf"^{source[1]}\. \S+", text, re.MULTILINE)
