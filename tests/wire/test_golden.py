"""Golden frames: Python and C both write and read exactly these bytes, this year and in ten years."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.wire import messages as m
from nvshare.wire.codec import Decoder, encode
from wire.examples import EXAMPLES, c_assignments, c_name

GOLDEN = Path(__file__).parent / "golden"
CURRENT = GOLDEN / f"v{m.PROTOCOL_VERSION}.txt"
WIRE_H = Path(__file__).parents[2] / "native" / "libnvshare" / "wire.h"
COMPILER = shutil.which("cc") or shutil.which("gcc")


def read(path: Path) -> dict[str, bytes]:
    """Lines of `name hex`; a word of hex may be split by blanks."""
    lines = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {words[0]: bytes.fromhex("".join(words[1:])) for words in lines}


def test_the_golden_file_has_every_message() -> None:
    assert {type(message) for message in EXAMPLES.values()} == set(m.MESSAGES)


def test_python_writes_the_golden_frames(request: pytest.FixtureRequest) -> None:
    frames = {name: encode(message) for name, message in EXAMPLES.items()}
    if request.config.getoption("--rewrite"):
        head = f"# Frames of protocol version {m.PROTOCOL_VERSION}. Frozen: a change here breaks peers in the field.\n"
        CURRENT.write_text(head + "".join(f"{name} {frame.hex()}\n" for name, frame in frames.items()))
    assert read(CURRENT) == frames


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("v*.txt")), ids=lambda path: path.stem)
def test_python_reads_the_golden_frames_of_every_version(path: Path) -> None:
    for name, frame in read(path).items():
        assert Decoder(m.MESSAGES).feed(frame) == [EXAMPLES[name]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_frame_may_come_a_byte_at_a_time(name: str) -> None:
    decoder = Decoder(m.MESSAGES)
    frame = encode(EXAMPLES[name])
    for byte in frame[:-1]:
        assert decoder.feed(bytes([byte])) == []
        assert decoder.rest
    assert decoder.feed(frame[-1:]) == [EXAMPLES[name]]
    assert not decoder.rest


def test_frames_may_come_all_at_once_and_split_anywhere() -> None:
    stream = b"".join(encode(message) for message in EXAMPLES.values())
    assert Decoder(m.MESSAGES).feed(stream) == list(EXAMPLES.values())
    for cut in range(0, len(stream), 7):
        decoder = Decoder(m.MESSAGES)
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == list(EXAMPLES.values())


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes every example as a frame in hex; given a name and hex, reads that frame and says which fields differ."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("golden")
    source, program = folder / "golden.c", folder / "golden"
    source.write_text(_c_source())
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-pointer-sign"]
    subprocess.run([COMPILER, *flags, "-I", WIRE_H.parent, "-o", program, source], check=True)
    return program


def _c_source() -> str:
    fills = "".join(_c_fill(name, message) for name, message in EXAMPLES.items())
    rows = "".join(f'    {{"{name}", fill_{name}}},\n' for name in EXAMPLES)
    return f"""
#include <stdio.h>
#include <string.h>
#include "wire.h"

{fills}
static const struct {{ const char *name; size_t (*fill)(unsigned char *); }} examples[] = {{
{rows}}};

int main(int argc, char **argv)
{{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {{
        unsigned char bytes[NVS_MAX_FRAME];
        size_t length = examples[i].fill(bytes);
        if (argc == 1) {{
            printf("%s ", examples[i].name);
            for (size_t at = 0; at < length; at++)
                printf("%02x", bytes[at]);
            printf("\\n");
        }} else if (!strcmp(argv[1], examples[i].name)) {{
            unsigned char given[NVS_MAX_FRAME] = {{0}};
            size_t read = fread(given, 1, sizeof given, stdin);
            struct nvs_head head;
            memcpy(&head, given, sizeof head);
            return read != length || head.length != length || memcmp(given, bytes, length) != 0;
        }}
    }}
    return argc != 1;
}}
"""


def _c_fill(name: str, message: m.Message) -> str:
    """The struct is zeroed first: padding is part of a frame, and is zero."""
    kind = type(message)
    struct = c_name(kind)
    count = len(message.entries) if isinstance(message, m.Register) else 0
    lines = "\n    ".join(c_assignments(message))
    return f"""
static size_t fill_{name}(unsigned char *bytes)
{{
    struct nvs_msg_{struct} frame;
    struct nvs_gpu_entry entries[{count + 1}];
    memset(&frame, 0, sizeof frame);
    memset(entries, 0, sizeof entries);
    frame.type = NVS_{struct.upper()};
    frame.length = sizeof frame + {count} * sizeof *entries;
    {lines}
    memcpy(bytes, &frame, sizeof frame);
    memcpy(bytes + sizeof frame, entries, {count} * sizeof *entries);
    return frame.length;
}}
"""


def test_c_writes_the_golden_frames(c_program: Path) -> None:
    written = subprocess.run([c_program], check=True, capture_output=True, text=True).stdout
    assert {name: bytes.fromhex(text) for name, text in map(str.split, written.splitlines())} == read(CURRENT)


@pytest.mark.parametrize("name", EXAMPLES)
def test_c_reads_the_golden_frames(name: str, c_program: Path) -> None:
    frame = read(CURRENT)[name]
    assert subprocess.run([c_program, name], input=frame, check=False).returncode == 0
    spoiled = frame[:-1] + bytes([frame[-1] ^ 1])
    assert subprocess.run([c_program, name], input=spoiled, check=False).returncode == 1


def test_the_header_is_not_stale() -> None:
    root = WIRE_H.parents[2]
    command = [sys.executable, str(root / "tools" / "wire_header.py"), "--check"]
    environment = {"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"}
    assert subprocess.run(command, check=False, env=environment).returncode == 0
