"""No byte of a frame comes from memory that nobody has set.

The client machine is compiled twice. Each of its functions begins by filling the stack below its own frame, where the
variables of the functions that it calls will be, each time with another value; so is the buffer for frames. Both play
the same worlds, and every frame must be the same."""

import subprocess
import sys
from pathlib import Path

from nvshare.wire import messages as wire

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "native" / "libnvshare"
WORLDS, STEPS = 12, 500
"""Enough for each kind of message to be sent often."""
LAST_IN_WORLDS = 31
"""Worlds have all kinds of messages up to this number, but not SET_TQ, which is the operator's."""
POISON = """
#include <string.h>
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *function, void *caller)
{
    char below[4096];
    memset(below, VALUE, sizeof below);
    __asm__ volatile("" : : "r"(below), "r"(function), "r"(caller) : "memory");
}
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)function, (void)caller;
}
"""
PLAY = """
import ctypes, sys
from pathlib import Path
import nvshare.native_directory
nvshare.native_directory.NATIVE = Path(sys.argv[1])
from nvshare.client_machine import machine
from nvshare.client_machine.library import Out
from nvshare.schedsim.worlds.faults import play
def send(self, usual=machine.ClientMachine._send):
    at, size = ctypes.addressof(self._out) + Out.frames.offset, self._out.frames_bytes
    frames = ctypes.string_at(at, size)
    usual(self)
    ctypes.memset(at, int(sys.argv[2]), Out.frames.size)
    while frames:
        length = int.from_bytes(frames[:2], "little")
        print(frames[:length].hex())
        frames = frames[length:]
machine.ClientMachine._send = send
for seed in range(int(sys.argv[3])):
    play(seed, int(sys.argv[4]))
"""


def build(place: Path, value: int, sources: Path = SOURCES) -> Path:
    place.mkdir()
    poison = place / "poison.c"
    poison.write_text(POISON)
    flags = ["-std=gnu11", "-O0", "-shared", "-fPIC", "-D_GNU_SOURCE", "-finstrument-functions", f"-DVALUE={value}"]
    files = [poison, *sorted((sources / "client").glob("*.c"))]
    output = str(place / "libnvshare_client.so")
    subprocess.run(["cc", *flags, f"-I{sources}", *map(str, files), "-o", output], check=True)
    return place


def frames_with(value: int, place: Path, sources: Path = SOURCES) -> list[str]:
    words = [str(build(place / str(value), value, sources)), str(value), str(WORLDS), str(STEPS)]
    done = subprocess.run([sys.executable, "-c", PLAY, *words], check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_no_byte_of_a_frame_is_left_to_chance(tmp_path: Path) -> None:
    frames = frames_with(0, tmp_path)
    assert frames == frames_with(0xA5, tmp_path)
    sent = {bytes.fromhex(frame)[2] for frame in frames}
    assert {kind.number for kind in set(wire.FROM_CLIENT) - {wire.SetTq} if kind.number <= LAST_IN_WORLDS} <= sent


def test_a_frame_that_is_not_cleared_is_found(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    subprocess.run(["cp", "-r", str(SOURCES), str(sources)], check=True)
    frames = sources / "client" / "frames.c"
    text, clearing = frames.read_text(), "    memset(&frame, 0, sizeof frame); \\\n"
    assert text.count(clearing) == 1
    frames.write_text(text.replace(clearing, ""))
    assert frames_with(0, tmp_path, sources) != frames_with(0xA5, tmp_path, sources)
