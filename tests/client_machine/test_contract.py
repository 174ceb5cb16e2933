"""What nvshare.client_machine.library declares is what the C headers say: fields, constants and calls.

The compiler compares fields and constants: each becomes a _Static_assert beside the headers."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nvshare.client_machine import effects, library, looks

HEADERS = Path(__file__).parents[2] / "native" / "libnvshare"
INCLUDED = (
    "client/account.h",
    "client/turn.h",
    "client/client.h",
    "client/looks.h",
    "client/looker.h",
    "client/tell.h",
    "client/job.h",
    "client/effects.h",
)

STRUCTS: dict[str, type[ctypes.Structure]] = {
    "nvs_client_config": library.Config,
    "nvs_account": library.Account,
    "nvs_turn": library.Turn,
    "nvs_client_gpu": library.Gpu,
    "nvs_seen": library.Seen,
    "nvs_client_out": library.Out,
    "nvs_client": library.Client,
    "nvs_look_report": looks.LookReport,
    "nvs_looks": looks.Looks,
    "nvs_look_facts": looks.LookFacts,
    "nvs_looker": looks.Looker,
    "nvs_effect": effects.Effect,
}
ENUMS: dict[str, tuple[str, type[Any]]] = {
    "nvs_turn_state": ("NVS_TURN_", library.TurnState),
    "nvs_turn_do": ("NVS_DO_", library.TurnDo),
    "nvs_gpu_do": ("NVS_DO_", library.GpuDo),
    "nvs_client_do": ("NVS_CLIENT_", library.ClientDo),
    "nvs_news": ("NVS_NEWS_", library.News),
    "nvs_verdict": ("NVS_", library.Verdict),
    "nvs_absence": ("NVS_", library.Absence),
    "nvs_ask_fate": ("NVS_ASK_", library.AskFate),
    "nvs_effect_kind": ("NVS_EFFECT_", effects.EffectKind),
    "nvs_wait": ("NVS_WAIT_", library.Wait),
    "nvs_unfinished": ("NVS_UNFINISHED_", looks.Unfinished),
}
"""By the name of the C enum: what its constants begin with, and the class that has them."""
NOT_MIRRORED = {"NVS_TURN_STATES", "NVS_DO_NOTHING"}
"""How many there are, and no bit."""


def constants(kind: type[Any]) -> dict[str, int]:
    return {name: int(value) for name, value in vars(kind).items() if name.isupper()}


def asserts() -> Iterator[str]:
    """What must hold in C, one condition each."""
    for name, kind in STRUCTS.items():
        yield f"sizeof(struct {name}) == {ctypes.sizeof(kind)}"
        for field, *_ in kind._fields_:
            there = getattr(kind, field)
            yield f"offsetof(struct {name}, {field}) == {there.offset}"
            yield f"sizeof((struct {name}){{0}}.{field}) == {there.size}"
    for prefix, kind in ENUMS.values():
        for name, value in constants(kind).items():
            yield f"{prefix}{name} == {value}"
    yield f"NVS_MAX_GPUS == {library.MAX_GPUS}"
    yield f"NVS_MAX_FRAME == {library.MAX_FRAME}"
    yield f"NVS_NEVER == {library.NEVER}"
    yield f"NVS_LOOKS_DUE == {looks.DUE}"
    yield f"NVS_LOOKS_QUIET == {looks.QUIET}"


def complaints(headers: Path, directory: Path) -> str:
    """What the compiler says of a file with all conditions; the first of each is that it does not hold."""
    lines = [f'#include "{name}"' for name in INCLUDED]
    lines += [f'_Static_assert({condition}, "{condition}");' for condition in asserts()]
    source = directory / "contract.c"
    source.write_text("\n".join(lines) + "\n")
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{headers}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_fields_and_constants_are_those_of_the_headers(tmp_path: Path) -> None:
    assert complaints(HEADERS, tmp_path) == ""


@pytest.mark.parametrize("name", ENUMS)
def test_no_constant_of_an_enum_is_missing(name: str) -> None:
    text = "".join((HEADERS / file).read_text() for file in INCLUDED)
    [body] = re.findall(rf"^enum {name} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)
    there = set(re.findall(r"^ +(NVS_\w+)", body, re.MULTILINE)) - NOT_MIRRORED
    prefix, kind = ENUMS[name]
    assert {prefix + ours for ours in constants(kind)} == there


def swap(text: str) -> str:
    return text.replace("orphan_ns;", "join_ns ;").replace("int64_t join_ns;", "int64_t orphan_ns;")


def renumber(text: str) -> str:
    return text.replace("NVS_CLIENT_JOINED = 16", "NVS_CLIENT_JOINED = 32").replace(
        "NVS_CLIENT_ANSWER = 32", "NVS_CLIENT_ANSWER = 16"
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (swap, "offsetof(struct nvs_client_config, join_ns) == 16"),
        (renumber, "NVS_CLIENT_ANSWER == 32"),
        (lambda text: text.replace("uint32_t ask;", "uint64_t ask;"), "sizeof((struct nvs_client_out){0}.ask) == 4"),
    ],
    ids=["two fields are swapped", "two bits are renumbered", "a field becomes wider"],
)
def test_a_change_of_a_header_is_found(tmp_path: Path, change: Callable[[str], str], found: str) -> None:
    headers = tmp_path / "headers"
    shutil.copytree(HEADERS, headers, ignore=shutil.ignore_patterns("*.c"))
    header = headers / "client" / "client.h"
    changed = change(header.read_text())
    assert changed != header.read_text()
    header.write_text(changed)
    assert found in complaints(headers, tmp_path)


POINTERS = {"uint8_t": ctypes.c_char_p, "uint32_t": ctypes.POINTER(ctypes.c_uint32)} | {
    f"struct {name}": ctypes.POINTER(kind) for name, kind in STRUCTS.items()
}
VALUES: dict[str, Any] = {
    "void": None,
    "bool": ctypes.c_bool,
    "int": ctypes.c_int,
    "uint8_t": ctypes.c_uint8,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
}


def type_of(declared: str) -> Any:
    """What ctypes needs for a parameter or result: `const uint8_t uuid[16]`, `struct nvs_client *client`."""
    words = re.sub(r"\bconst\b", "", declared).strip()
    kind = re.match(r"(?:struct |enum )?\w+", words)
    assert kind is not None
    if kind.group().startswith("enum "):
        return ctypes.c_int
    return POINTERS[kind.group()] if "*" in words or "[" in words else VALUES[kind.group()]


@pytest.mark.parametrize("name", library._CALLS)
def test_a_call_has_the_types_of_its_prototype(name: str) -> None:
    text = "".join((HEADERS / file).read_text() for file in INCLUDED)
    [(result, parameters)] = re.findall(rf"^(\w[\w ]*?) {name}\(([^)]*)\);", text, re.MULTILINE)
    assert library._CALLS[name] == (type_of(result), [type_of(parameter) for parameter in parameters.split(",")])
