"""Settings of the simulated GPU: where they may come from, what is refused."""

import re
from pathlib import Path

import pytest

from nvshare.simgpu.config import SETTINGS, SimConfigError, SimGpu, from_environment, from_file, load

ROOT = Path(__file__).resolve().parents[2]


def test_sizes_are_read_as_kubernetes_writes_them() -> None:
    for text in ("16Gi", "512Mi", "2G", "1.5Ki", "7", "1e9"):
        assert SimGpu().with_values(memory=text).values["memory"] == text
    with pytest.raises(SimConfigError, match="'16GB' has an unknown suffix 'GB'; was Gi meant"):
        SimGpu().with_values(memory="16GB")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", "lots"),
        ("memory", "0"),
        ("gpus", 17),
        ("gpus", "-1"),
        ("scale", 0),
        ("scale", "fast"),
        ("compute_capability", "8"),
        ("slice", "2 ms"),
        ("touch", "some"),
        ("card", "rtx"),
        ("prefetch", "maybe"),
        ("trace", "maybe"),
        ("kernels", "matmul=soon"),
        ("colour", "red"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: object) -> None:
    with pytest.raises(SimConfigError, match=name):
        SimGpu().with_values(**{name: value})


def test_an_argument_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sim.toml"
    file.write_text('[simgpu]\ngpus = 2\nmemory = "8Gi"\nscale = 0.5\nkernels = { a = "5ms", b = "1us" }\n')
    settings = load(file, {"NVSHARE_SIM_MEMORY": "24Gi", "NVSHARE_SIM_SCALE": "", "OTHER": "x"}, gpus=4, name=None)
    assert settings.values == {"gpus": "4", "memory": "24Gi", "scale": "0.5", "kernels": "a=5ms,b=1us"}
    assert from_environment({}).values == {}


@pytest.mark.parametrize("content", ["gpus = ", 'simgpu = "x"', "[simgpu]\nfans = 2\n"])
def test_a_bad_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "sim.toml"
    file.write_text(content)
    with pytest.raises(SimConfigError, match=r"sim\.toml"):
        from_file(file)


def test_the_environment_of_a_child_names_the_settings_and_the_libraries() -> None:
    environment = (
        SimGpu().with_values(gpus=2, trace=True).environment({"LD_LIBRARY_PATH": "/opt", "HOME": "/x"}, runtime=True)
    )
    assert environment["NVSHARE_SIM_GPUS"] == "2"
    assert environment["NVSHARE_SIM_TRACE"] == "1"
    assert environment["LD_LIBRARY_PATH"].endswith("/_native/sim:/opt")
    assert environment["LD_PRELOAD"].endswith("/libcudart.so.12")
    assert environment["HOME"] == "/x"


def test_every_setting_the_simulator_reads_is_in_the_table_and_the_other_way_round() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "native" / "simgpu").rglob("*.c"))
    read = set(re.findall(r'"(NVSHARE_SIM_[A-Z_]+)"', sources))
    assert {setting.variable for setting in SETTINGS.values()} == read


def test_the_documented_table_of_settings_is_the_real_one() -> None:
    page = (ROOT / "docs" / "simulated-gpu.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(NVSHARE_SIM_\w+)` \| (?:(.+) )?\| (.+) \|$", page, re.MULTILINE)
    assert rows == [(name, one.variable, one.default, one.meaning) for name, one in SETTINGS.items()]
