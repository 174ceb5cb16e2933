"""Files of at most 300 lines and functions of at most 40, but for the exceptions listed here, each with its reason.

A Python function is counted from `def` to its last line, a C function from its opening brace to its closing one, both
in the first column as this project writes them, a function or method of JavaScript from its head to the brace below its
first letter. Blank lines and comments count."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 40
GENERATED = ("src/nvshare/plugin/api/", "src/nvshare/dra/api/", "native/libnvshare/wire.h")

API = "a table of the driver's API, one name per line"
CHECK = "a sequence of calls and their results, read from top to bottom"
LONG_FILES = {
    "native/include/cuda_api.h": API,
    "native/include/cuda_types.h": API,
    "native/libnvshare/lookup/exports.def": API,
    "native/simgpu/driver/functions.def": API,
    "src/nvshare/wire/messages.py": "the whole protocol is in one place",
    "tests/native/lib_client.c": "one command of the test program after the other",
    "tests/native/simgpu_worker.c": "one command of the test program after the other",
    "tests/native/simgpu_graphs.c": CHECK,
    "tests/native/simgpu_memory.c": CHECK,
    "tests/native/simgpu_streams.c": CHECK,
}
LONG_FUNCTIONS = {
    "bench/native/handover_load.c:main": CHECK,
    "src/nvshare/cli/run/command.py:run": "half of it is the options of the command line and its help",
    "src/nvshare/core/node.py:__init__": "half of it is the table of events and who notes them",
    "tests/native/cudart_graph.c:a_capture_becomes_a_graph_that_can_be_replayed": CHECK,
    "tests/native/cudart_graph.c:events_memory_and_owners_in_graphs": CHECK,
    "tests/native/cudart_graph.c:nodes_can_be_looked_at_and_changed": CHECK,
    "tests/native/cudart_launch.c:streams_and_events": CHECK,
    "tests/native/simgpu_devices.c:devices": CHECK,
    "tests/native/simgpu_graphs.c:building": CHECK,
    "tests/native/simgpu_graphs.c:capturing": CHECK,
    "tests/native/simgpu_memory.c:arrays": CHECK,
    "tests/native/simgpu_memory.c:pools": CHECK,
    "tests/native/simgpu_memory.c:virtual_memory": CHECK,
    "tests/native/simgpu_streams.c:modules": CHECK,
    "tests/native/simgpu_unit_state.c:model_residency": CHECK,
}


def sources() -> list[str]:
    """Every file of ours in C, Python or JavaScript, and the tables that C files include."""
    listed = subprocess.run(
        ["git", "ls-files", "*.def", *(f"*{suffix}" for suffix in FUNCTIONS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listed.stdout.splitlines() if not name.startswith(GENERATED) and (ROOT / name).is_file()]


def python_functions(text: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    name, begin = "", 0
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line == "{":
            head = " ".join(lines[max(0, number - 3) : number])
            names = re.findall(r"(\w+)\s*\(", head)
            name, begin = (names[-1] if names else "?"), number
        elif line == "}" and name:
            yield name, number - begin + 1
            name = ""


def js_functions(text: str) -> Iterator[tuple[str, int]]:
    lines = text.splitlines()
    for begin, line in enumerate(lines):
        if (head := JS_HEAD.match(line)) and head["name"] not in JS_BLOCKS:
            end = lines.index(f"{head['indent']}}}", begin)
            yield head["name"], end - begin + 1


JS_HEAD = re.compile(r"(?P<indent> *)(?:(?:export|static|async|function|get|set) )*(?P<name>#?\w+)\(.*\) \{$")
JS_BLOCKS = {"if", "for", "while", "switch", "catch"}
FUNCTIONS = {".py": python_functions, ".c": c_functions, ".h": c_functions, ".js": js_functions}


def long_files() -> dict[str, int]:
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in sources()}
    return {name: length for name, length in lengths.items() if length > MAX_FILE_LINES}


def long_functions() -> dict[str, int]:
    found: dict[str, int] = {}
    for name in sources():
        if (functions_of := FUNCTIONS.get(Path(name).suffix)) is None:
            continue
        for function, length in functions_of((ROOT / name).read_text()):
            if length > MAX_FUNCTION_LINES:
                found[f"{name}:{function}"] = length
    return found


@pytest.mark.parametrize(
    ("found", "listed"), [(long_files(), LONG_FILES), (long_functions(), LONG_FUNCTIONS)], ids=["files", "functions"]
)
def test_what_is_too_long_is_listed_and_what_is_listed_is_too_long(
    found: dict[str, int], listed: dict[str, str]
) -> None:
    assert {name: length for name, length in found.items() if name not in listed} == {}
    assert [name for name in listed if name not in found] == [], "these exceptions are no longer needed"
    assert all(reason.strip() for reason in listed.values())


def test_a_long_c_function_is_found() -> None:
    text = "\n".join(["static int counted(void)", "{", *["    work();"] * 39, "}", "", "int f(void) { return 0; }"])
    assert list(c_functions(text)) == [("counted", 41)]


def test_a_long_javascript_function_is_found() -> None:
    method = ["class A {", "  counted(a, { b }) {", "    if (a) {", *["      work();"] * 36, "    }", "  }", "}"]
    function = ["export function also(a) {", *["  work();"] * 39, "}"]
    assert list(js_functions("\n".join(method + function))) == [("counted", 40), ("also", 41)]


def test_a_long_python_function_is_found() -> None:
    text = "\n".join(["class A:", "    async def counted(self):", *["        work()"] * 40])
    assert list(python_functions(text)) == [("counted", 41)]
