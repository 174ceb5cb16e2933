"""Writes native/libnvshare/wire.h from nvshare.wire.messages. `--check` only says whether the file is stale."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from nvshare.wire import messages
from nvshare.wire.codec import ENTRY_LAYOUT, LAYOUTS
from nvshare.wire.layout import Layout

HEADER = Path(__file__).parents[1] / "native" / "libnvshare" / "wire.h"


def render() -> str:
    """The whole header."""
    parts = [
        "/* The protocol between libnvshare and the scheduler.\n"
        " * Generated from src/nvshare/wire/messages.py by `make generate`: do not edit. */",
        "#ifndef NVS_WIRE_H\n#define NVS_WIRE_H\n\n#include <stddef.h>\n#include <stdint.h>",
        _constants(),
        "enum nvs_message_type {\n"
        + "".join(f"    NVS_{_upper(m.__name__)} = {m.number},\n" for m in messages.MESSAGES)
        + "};",
        *(
            _enum(e)
            for e in (
                messages.GpuKind,
                messages.ClaimState,
                messages.DropReason,
                messages.MoverState,
                messages.MemoryKind,
            )
        ),
        "/* What every frame starts with. */\n"
        "struct nvs_head {\n    uint16_t length;\n    uint8_t type;\n    uint8_t gpu;\n};",
        _struct("gpu_entry", ENTRY_LAYOUT, messages.GpuEntry.__doc__),
        *(_struct(_lower(m.__name__), LAYOUTS[m], m.__doc__) for m in messages.MESSAGES),
        "#endif",
    ]
    return "\n\n".join(parts) + "\n"


def _constants() -> str:
    names = (
        "PROTOCOL_VERSION",
        "PING_SINCE",
        "MOVES_SINCE",
        "WORKING_SETS_SINCE",
        "HOLDS_SINCE",
        "MOVER_SINCE",
        "JOBS_SINCE",
        "GPU_TIME_SINCE",
        "MEMORY_MODES_SINCE",
        "ROOM_SINCE",
        "LOOKS_MOST",
        "LOOK_NS",
        "MAX_FRAME",
        "MAX_GPUS",
        "NAME_BYTES",
    )
    lines = [f"#define NVS_{name} {getattr(messages, name)}" for name in names]
    lines.append(f"#define NVS_LAST_NUMBER {max(message.number for message in messages.MESSAGES)}")
    lines.append(f"#define NVS_MAX_BYTES UINT64_C({messages.MAX_BYTES})")
    lines.append("#define NVS_UNLIMITED UINT64_MAX")
    return "\n".join(lines)


def _enum(enum: type) -> str:
    name = _lower(enum.__name__)
    rows = "".join(f"    NVS_{_upper(enum.__name__)}_{m.name} = {m.value},\n" for m in enum)  # type: ignore[attr-defined]
    return f"/* {enum.__doc__} */\nenum nvs_{name} {{\n{rows}}};"


def _struct(name: str, layout: Layout, doc: str | None) -> str:
    tag = f"nvs_{name}" if name == "gpu_entry" else f"nvs_msg_{name}"
    rows, checks = "", ""
    for field in layout.fields:
        base, _, extent = field.width.c_type.partition("[")
        rows += f"    {base} {field.name}{'[' + extent if extent else ''};\n"
        checks += f'_Static_assert(offsetof(struct {tag}, {field.name}) == {field.offset}, "{name}.{field.name}");\n'
    first = (doc or "").strip().splitlines()[0]
    return (
        f"/* {first} */\nstruct {tag} {{\n{rows}}};\n"
        f'_Static_assert(sizeof(struct {tag}) == {layout.size}, "{name}");\n{checks}'.rstrip()
    )


def _lower(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _upper(name: str) -> str:
    return _lower(name).upper()


def main() -> int:
    text = render()
    if sys.argv[1:] == ["--check"]:
        if HEADER.exists() and HEADER.read_text() == text:
            return 0
        print(f"{HEADER.name} is stale: run `make generate`", file=sys.stderr)
        return 1
    HEADER.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
