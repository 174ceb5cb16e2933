"""The released library runs on machines older than the one that builds it."""

from pathlib import Path

import pytest

import release
from elf import Elf
from libnvshare.programs import LIBRARY, Programs
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


def test_the_reader_of_versions_agrees_with_what_this_machines_library_needs() -> None:
    elf = Elf.read(LIBRARY)
    assert elf.machine in release.MACHINES.values()
    assert elf.newest_glibc > (2, 2)
    assert any(name.startswith("GLIBC_2.") for name in elf.versions)


@pytest.mark.parametrize("machine", release.MACHINES)
def test_a_release_needs_no_glibc_newer_than_2_17(tmp_path: Path, machine: str) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed (development group)")
    elf = Elf.read(release.library(machine, tmp_path))
    assert elf.machine == release.MACHINES[machine]
    assert (2, 2) < elf.newest_glibc <= (2, 17)


def test_the_release_build_works_here(programs: Programs, tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed (development group)")
    if Elf.read(LIBRARY).machine != release.MACHINES["x86_64"]:
        pytest.skip("not an x86_64 machine")
    program = programs.start(LD_PRELOAD=str(release.library("x86_64", tmp_path)))
    program.do("init 0")
    program.do("spin 1 100")
    wait_until(lambda: program.said().count("running unshared") == 1, "it says so")
    program.finish()
