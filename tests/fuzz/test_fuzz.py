"""Random bytes, and valid input with a few bytes changed, for everything that reads what others wrote."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets import TARGETS
from nvshare import admin
from nvshare.wire.messages import MESSAGES

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "wire" / "golden" / "v1.txt"
FRAMES = [bytes.fromhex(line.rpartition(" ")[2]) for line in GOLDEN.read_text().splitlines() if line[:1].isalpha()]

POD = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": {"nvshare.com/gpu-memory-limit": "8Gi"}},
    "spec": {"containers": [{"name": "c", "env": [{"name": "NVSHARE_GPU_MEMORY_LIMIT", "value": "4Gi"}]}]},
}
SEEDS: dict[str, list[bytes]] = {
    "decoder": FRAMES,
    "control": [admin.encode(admin.GetStatus()), admin.encode(admin.SetLimit(target="a/b", limit=1 << 33))],
    "quantity": [b"8Gi", b"512Mi", b"1.5G", b"1e9", b"+.5Ti", b"100m"],
    "pod": [json.dumps(POD).encode()],
    "config_file": [b'switch_time_mode = "auto"\n', b"grace_seconds = 5.5\njournal_steps = 100\n"],
    "journal": [b'{"now": 1, "time": 0, "event": {"AlarmRang": {}}, "actions": []}\n'],
}


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


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    TARGETS[name](data.draw(st.one_of(st.binary(max_size=300), changed(SEEDS[name]))))


def test_there_are_frames_to_start_from() -> None:
    assert len(FRAMES) >= len(MESSAGES)


def test_the_librarys_reader_of_frames_survives_random_bytes(tmp_path: Path) -> None:
    """Built with the address and undefined-behaviour sanitizers; 200,000 inputs from one seed."""
    built = subprocess.run(
        ["sh", str(ROOT / "tools" / "fuzz_frames.sh"), str(tmp_path / "frames")], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(tmp_path / "frames"), "200000", "1"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "200000 inputs" in done.stdout
