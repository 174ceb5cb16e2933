"""libnvshare's sources: the table of locks is complete, and a function carries the name of its file."""

import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[2] / "native" / "libnvshare"
SOURCES = sorted(LIBRARY.rglob("*.c"))
HEADERS = sorted(LIBRARY.rglob("*.h"))

_LOCK = re.compile(r"^(?:static |    )?struct nvs_lock (\w+)", re.MULTILINE)
_FUNCTION = re.compile(
    r"^(?!static\b(?! inline)|extern\b|struct \w+ \w+;)[\w][\w *]*?\b(nvs_\w+)\([^;]*?\)\n?\s*\{", re.MULTILINE
)

# Files whose functions have names of their own, and why.
OWN_NAMES = {
    "base/log.c": "nvs_info, nvs_warn, nvs_debug: what they are called everywhere",
    "base/platform.c": "one function for each service of the operating system",
    "lookup/dlsym.c": "nvs_dlsym_target and nvs_dlvsym_target",
    "hooks/pools.c": "nvs_hook_pool_free; hooks are named by the driver",
}
_CANCELLATION_POINT = re.compile(
    r"(?<![\w.>])(?:accept|close|connect|creat|fsync|msync|nanosleep|open|openat|pause|poll|ppoll|read|readv|recv|recvfrom"
    r"|recvmsg|select|send|sendmsg|sendto|sigtimedwait|sleep|system|usleep|wait|waitpid|write|writev|fopen|f?printf)\("
)
# Files that call some of these, and why.
CALL_THEM = {
    "base/lock.c": "before it aborts, in sanitizer builds",
    "helper/deputy.c": "in the deputy, which nobody cancels",
    "helper/session.c": "in the helper, which nobody cancels",
}
NAMES = [str(path.relative_to(LIBRARY)) for path in [*SOURCES, *HEADERS]]


def declared_locks() -> set[str]:
    found = set()
    for path in [*SOURCES, *HEADERS]:
        if path.parent.name != "base":
            found |= set(_LOCK.findall(path.read_text()))
    return found


def table_of_locks() -> str:
    return (LIBRARY / "base" / "lock.h").read_text().partition("#ifndef")[0]


def test_the_table_of_locks_names_every_lock() -> None:
    rows = re.findall(r"^ \* \| [A-Z]+ +\| (\S+)", table_of_locks(), re.MULTILINE)
    assert {row.removeprefix("shard.") for row in rows} == declared_locks()


def test_the_locks_that_the_table_lists_as_taken_inside_are_those_that_sanitizer_builds_allow() -> None:
    documented: dict[str, set[str]] = {}
    rank = ""
    for row in re.findall(r"^ \* \|([^-].*)\|$", table_of_locks(), re.MULTILINE)[1:]:
        first, *_, last = row.split("|")
        rank = first.strip() or rank
        documented.setdefault(rank, set()).update(re.findall("[A-Z]+", last))
    checked = re.findall(r"^    \[NVS_LOCK_(\w+)\] = (.*),$", (LIBRARY / "base" / "lock.c").read_text(), re.MULTILINE)
    assert {name: set(re.findall(r"BIT\((\w+)\)", bits)) for name, bits in checked} == documented


def test_the_exceptions_are_files() -> None:
    assert [name for name in {**OWN_NAMES, **CALL_THEM} if not (LIBRARY / name).exists()] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN_NAMES])
def test_a_function_carries_the_name_of_its_file(name: str) -> None:
    path = LIBRARY / name
    allowed = (f"nvs_{path.stem}", f"nvs_{path.stem.removesuffix('s')}")
    strangers = [function for function in _FUNCTION.findall(path.read_text()) if not function.startswith(allowed)]
    assert strangers == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CALL_THEM])
def test_threads_of_the_program_meet_no_cancellation_point_of_libc(name: str) -> None:
    """base/cancellation.h says why."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", (LIBRARY / name).read_text(), flags=re.DOTALL)
    assert _CANCELLATION_POINT.findall(code) == []
