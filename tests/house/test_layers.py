"""Who may import whom, as ARCHITECTURE.md says; checked over the source as it stands."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "nvshare"

PURE = {"core", "wire", "admin", "config"}
ADAPTERS = {"inotify", "inventory", "kube", "simgpu"}
PROGRAMS = {"scheduler", "plugin", "cli", "sim"}
EVERYBODYS = {"record", "__version__"}

EXCEPTIONS = {
    ("admin.py", "core"): "the operator's status carries the core's snapshot",
    ("cli/simulate*.py", "sim"): "`nvshare simulate` is the simulator's command line",
}
"""Imports against the rule, by file, each with its reason."""

SHELL_ONLY = {
    "asyncio", "datetime", "http", "io", "logging", "multiprocessing", "os", "random", "select", "selectors", "shutil",
    "signal", "socket", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
"""Clocks, sockets, files, chance and the rest of the world: not for the pure parts."""


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Full names of the modules that a file imports; relative ones are not used in this house."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def allowed(part: str) -> set[str]:
    if part in PROGRAMS:
        return PURE | ADAPTERS
    return PURE if part in ADAPTERS else set()


def sources() -> list[Path]:
    found = sorted(path for path in ROOT.rglob("*.py") if "_native" not in path.parts)
    assert len(found) > 40
    return found


def trespasses(path: Path, names: Iterator[str]) -> set[str]:
    """The parts that a file imports against the rule."""
    part = part_of(path)
    ours = {name.split(".")[1] for name in names if name.startswith("nvshare.")}
    return {other for other in ours - {part} - allowed(part) - EVERYBODYS if not excepted(path, other)}


def excepted(path: Path, other: str) -> bool:
    file = str(path.relative_to(ROOT))
    return any(fnmatch(file, pattern) and other == part for pattern, part in EXCEPTIONS)


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    if part_of(path) not in EVERYBODYS | {"__init__"}:
        assert trespasses(path, imports(path)) == set()


def test_every_part_has_a_layer() -> None:
    known = PURE | ADAPTERS | PROGRAMS | EVERYBODYS | {"__init__"}
    assert {part_of(path) for path in sources()} <= known


def test_the_pure_parts_touch_nothing_of_the_world() -> None:
    for path in sources():
        if part_of(path) in PURE:
            assert {name.split(".")[0] for name in imports(path)} & SHELL_ONLY == set(), path


def test_only_the_scheduler_and_the_command_line_know_both_core_and_wire() -> None:
    both = {
        part_of(path)
        for path in sources()
        if {"core", "wire"} <= {name.split(".")[1] for name in imports(path) if name.startswith("nvshare.")}
    }
    assert both <= {"scheduler", "cli"}


@pytest.mark.parametrize(("pattern", "other"), EXCEPTIONS)
def test_each_exception_is_still_needed(pattern: str, other: str) -> None:
    files = [path for path in sources() if fnmatch(str(path.relative_to(ROOT)), pattern)]
    assert any(name.startswith(f"nvshare.{other}.") for path in files for name in imports(path))


def test_the_rule_can_be_broken() -> None:
    assert trespasses(ROOT / "core/node.py", iter(["nvshare.wire.codec"])) == {"wire"}
    assert trespasses(ROOT / "kube/watch.py", iter(["nvshare.inventory.nvml", "nvshare.record.Record"])) == {
        "inventory"
    }
    assert trespasses(ROOT / "cli/top.py", iter(["nvshare.scheduler.main", "nvshare.core.node"])) == {"scheduler"}
    assert trespasses(ROOT / "cli/top.py", iter(["nvshare.sim.card"])) == {"sim"}
    assert trespasses(ROOT / "cli/simulate.py", iter(["nvshare.sim.card"])) == set()
