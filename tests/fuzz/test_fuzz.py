"""Random bytes, and valid input with a few bytes changed, for everything that reads what others wrote."""

import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.mutate import changed as changed_json
from fuzz.seeds import FRAMES, SEEDS, STORIES
from fuzz.targets import TARGETS
from nvshare.wire.messages import MESSAGES

ROOT = Path(__file__).parents[2]


@st.composite
def changed(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Something valid, with bytes set, taken out or put in."""
    data = bytearray(draw(st.sampled_from(seeds)) * draw(st.sampled_from([1, 1, 2])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["set", "cut", "put"])):
            case "set" if data:
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 8))]
            case _:
                data[at:at] = draw(st.binary(max_size=8))
    return bytes(data)


@st.composite
def changed_lines(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Something valid, changed as JSON."""
    data = draw(st.sampled_from(seeds))
    return changed_json(data, Random(draw(st.integers(0, 1 << 32)))) or data


def test_a_journal_whose_time_is_no_number_is_refused() -> None:
    beginning = SEEDS["journal"][0].partition(b"\n")[0]
    TARGETS["journal"](beginning + b'\n{"now": {}, "time": 9.0, "event": {"AlarmRang": {}}, "actions": []}\n')


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    seeds = SEEDS[name]
    TARGETS[name](data.draw(st.one_of(st.binary(max_size=300), changed(seeds), changed_lines(seeds))))


@pytest.mark.parametrize("name", TARGETS)
def test_fuzzing_starts_from_what_is_accepted(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("number", ["0x" + "f" * 4000, "9" * 5000])
def test_a_number_of_thousands_of_digits_in_a_configuration_is_refused(number: str) -> None:
    TARGETS["config_file"](f"switch_time_fixed = {number}\n".encode())


def test_there_are_frames_to_start_from() -> None:
    assert len(FRAMES) >= len(MESSAGES)


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library's helper thread in a played world, with the address and undefined-behaviour sanitizers."""
    program = tmp_path_factory.mktemp("fuzz") / "frames"
    built = subprocess.run(["sh", str(ROOT / "tools" / "fuzz_frames.sh"), str(program)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("name", STORIES)
def test_a_story_that_was_written_down_holds(helper: Path, name: str) -> None:
    done = subprocess.run([helper, "-"], input=STORIES[name], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_the_librarys_helper_thread_lives_through_random_stories(helper: Path) -> None:
    """100,000 of them from one seed; every message is among them."""
    done = subprocess.run([helper, "100000", "1"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "100000 stories" in done.stdout
