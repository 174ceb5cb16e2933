"""Which package may import which, as ARCHITECTURE.md says; checked over the source as it stands."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "nvshare"

PURE = {"core", "wire", "admin", "claim_file", "config", "journal", "status_document", "translation"}
ADAPTERS = {"client_machine", "inotify", "inventory", "kube", "simgpu", "unix_socket"}
PROGRAMS = {"scheduler", "plugin", "dra", "cli", "schedsim"}
EVERYBODYS = {
    "framework_settings",
    "native_directory",
    "percentage",
    "printable",
    "quantity",
    "record",
    "setting_values",
    "__version__",
}

EXCEPTIONS = {
    ("admin.py", "core"): "the operator's status carries the core's snapshot",
    ("status_document.py", "admin"): "it is the operator's status under public names",
    ("status_document.py", "core"): "it is the core's snapshot under public names",
    ("journal.py", "core"): "a step is an event and actions of the core",
    ("translation.py", "core"): "it translates between the two",
    ("translation.py", "wire"): "it translates between the two",
    ("cli/simulate/*.py", "schedsim"): "`nvshare simulate` is the simulator's command line",
    ("dra/*.py", "plugin"): "a container gets the same from the DRA driver as from the device plugin",
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


def test_translation_is_the_only_file_that_knows_both_messages_and_events() -> None:
    def knows(path: Path, *modules: str) -> bool:
        return any(f"{name}.".startswith(f"nvshare.{module}.") for name in imports(path) for module in modules)

    both = [path for path in sources() if knows(path, "wire") and knows(path, "core.events", "core.actions")]
    assert [path.name for path in both] == ["translation.py"]


@pytest.mark.parametrize(("pattern", "other"), EXCEPTIONS)
def test_each_exception_is_still_needed(pattern: str, other: str) -> None:
    files = [path for path in sources() if fnmatch(str(path.relative_to(ROOT)), pattern)]
    assert any(name.startswith(f"nvshare.{other}.") for path in files for name in imports(path))


def test_the_rule_can_be_broken() -> None:
    assert trespasses(ROOT / "core/node.py", iter(["nvshare.wire.codec"])) == {"wire"}
    assert trespasses(ROOT / "kube/watch.py", iter(["nvshare.inventory.nvml", "nvshare.record.Record"])) == {
        "inventory"
    }
    assert trespasses(ROOT / "cli/ctl/top.py", iter(["nvshare.scheduler.main", "nvshare.core.node"])) == {"scheduler"}
    assert trespasses(ROOT / "cli/ctl/top.py", iter(["nvshare.schedsim.card"])) == {"schedsim"}
    assert trespasses(ROOT / "cli/simulate/command.py", iter(["nvshare.schedsim.card"])) == set()
