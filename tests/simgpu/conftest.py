"""A simulated node per test: its own directory, its own settings, children that run on it."""

import os
import subprocess
from pathlib import Path

import pytest

from nvshare.simgpu.config import SimGpu
from simgpu.node import ROOT, MakeNode, Node, Sanitized

CHECKS = Path(os.environ.get("NVSHARE_CHECKS", ROOT / "build" / "native" / "checks"))
CUDART_PROGRAMS = ("devices", "memory", "launch", "graph", "broken")


@pytest.fixture
def make_node(tmp_path: Path) -> MakeNode:
    """A node with settings of the test's choice."""

    def make(**settings: object) -> Node:
        directory = tmp_path / "node"
        directory.mkdir(exist_ok=True)
        return Node(SimGpu().with_values(directory=str(directory), **settings))

    return make


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """Two cards of 16 GiB, a hundred times faster than life, with a trace."""
    return make_node(gpus=2, memory="16Gi", scale=0.01, trace=1)


@pytest.fixture(scope="session")
def checks() -> Path:
    """Where the compiled C programs are."""
    assert CHECKS.is_dir(), f"no C checks in {CHECKS}: build them with `make -C native checks`"
    return CHECKS


@pytest.fixture(scope="session")
def sanitized() -> Sanitized:
    """The sanitizer build of the simulated libraries and the C programs on them; made here if it is not up to date."""
    build = ROOT / "build" / "native-address-undefined"
    programs = [*(f"cudart{major}_{name}" for major in ("12", "13") for name in CUDART_PROGRAMS), "nvml_calls"]
    targets = [f"{ROOT}/native/../build/{build.name}/checks/{program}" for program in programs]
    targets.append(f"{ROOT}/native/../build/{build.name}/out/sim/libcuda.so.1")
    made = subprocess.run(
        ["make", "-s", "-C", ROOT / "native", "SAN=address,undefined", *targets],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return Sanitized(build)
