"""The stand-in CUDA runtime: its symbols, and C programs built as nvcc builds them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.simgpu.config import library_directory
from nvshare.simgpu.trace import Kind
from simgpu.node import Node, Sanitized

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MAJORS = ("12", "13")
PROGRAMS = ("devices", "memory", "launch", "graph", "broken")


def exported(major: str) -> dict[str, str]:
    """Names and versions of the runtime's symbols."""
    library = library_directory() / f"libcudart.so.{major}"
    table = subprocess.run(["nm", "-D", "--with-symbol-versions", library], capture_output=True, text=True, check=True)
    symbols = (line.split()[-1] for line in table.stdout.splitlines() if " T " in line)
    return dict(symbol.split("@@") for symbol in symbols)


def without_stream_suffix(name: str) -> str:
    return re.sub(r"_pt[sd][sz]$", "", name)


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_runtime_program_behaves_as_on_a_real_card(node: Node, checks: Path, program: str, major: str) -> None:
    node.run(checks / f"cudart{major}_{program}")


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_runtime_program_sees_no_difference_with_libnvshare_in_between(
    node: Node, checks: Path, tmp_path: Path, program: str, major: str
) -> None:
    library = library_directory().parent / "libnvshare.so"
    nobody = {"NVSHARE_SOCKET": str(tmp_path / "none" / "scheduler.sock")}
    node.run("env", f"LD_PRELOAD={library}", checks / f"cudart{major}_{program}", **nobody)


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_runtime_program_is_clean_under_the_sanitizers(
    node: Node, sanitized: Sanitized, program: str, major: str
) -> None:
    sanitized.run(node, f"cudart{major}_{program}")


def test_pytorch_finds_every_symbol_it_needs_under_the_version_it_asks_for() -> None:
    needed = (HERE / "data" / "torch-2.9.1-cudart-symbols.txt").read_text().splitlines()
    ours = exported("12")
    assert [name for name in needed if not name.startswith("#") and ours.get(name) != "libcudart.so.12"] == []
    assert len(needed) == 93


def test_other_cuda_libraries_find_every_symbol_they_need() -> None:
    lines = (HERE / "data" / "cudart-symbols-of-libraries.txt").read_text().splitlines()
    needed = [line.split() for line in lines if not line.startswith("#")]
    ours = {major: exported(major) for major in MAJORS}
    assert [(major, name) for major, name in needed if name not in ours[major]] == []
    assert {major for major, _ in needed} == set(MAJORS)


@pytest.mark.parametrize("major", MAJORS)
def test_every_symbol_has_the_version_of_its_major_and_the_library_its_soname(major: str) -> None:
    assert set(exported(major).values()) == {f"libcudart.so.{major}"}
    dynamic = subprocess.run(
        ["readelf", "-d", library_directory() / f"libcudart.so.{major}"], capture_output=True, text=True, check=True
    ).stdout
    assert f"[libcudart.so.{major}]" in dynamic
    assert "libcuda.so" not in dynamic  # found by dlopen, as the real one does


@pytest.mark.parametrize("major", MAJORS)
def test_every_function_of_the_runtime_is_called_by_a_check(major: str) -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "tests" / "native").glob("cudart_*.c"))
    text += (ROOT / "tests" / "native" / "cudart_nvcc.h").read_text()
    called = set(re.findall(r"\b(_{0,2}cuda\w+)\(", text))
    called |= {f"{name}_v2" for name in called}
    uncalled = {without_stream_suffix(name) for name in exported(major)} - called
    assert sorted(uncalled) == []


def test_a_program_without_a_driver_is_told_so() -> None:
    libraries = {"LD_LIBRARY_PATH": "/nowhere", "LD_PRELOAD": str(library_directory() / "libcudart.so.12")}
    script = (
        "import ctypes; rt = ctypes.CDLL('libcudart.so.12'); n, v = ctypes.c_int(9), ctypes.c_int(9);"
        "print(rt.cudaGetDeviceCount(ctypes.byref(n)), n.value, rt.cudaDriverGetVersion(ctypes.byref(v)), v.value)"
    )
    out = subprocess.run([sys.executable, "-c", script], env=libraries, capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["35", "0", "0", "0"]


def test_kernels_and_memory_of_a_runtime_program_are_in_the_trace(node: Node, checks: Path) -> None:
    node.run(checks / "cudart12_launch")
    (trace,) = node.traces()
    assert {kernel.name for kernel in trace.kernels()} == {"scale", "sim_spin_us", "sim_wait_flag"}
    assert all(kernel.end_ns is not None for kernel in trace.kernels())
    assert trace.of_kind(Kind.ALLOC)
    assert trace.not_simulated() == []
