"""A recorded conversation of two programs with their scheduler, byte for byte.

Each line is who, a sign and a text:

    A $ alloc 1024      a command to program A (tests/native/lib_client.c)
    A = 0               its result
    A > 1c0001...       a frame from its library to the scheduler
    A < 0c0003...       a frame from the scheduler to its library
"""

from dataclasses import dataclass
from pathlib import Path

from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, encode

HERE = Path(__file__).parent
CONVERSATIONS = HERE / "conversations"
GOLDEN = HERE.parent / "wire" / "golden"


@dataclass(frozen=True)
class Line:
    """One line."""

    who: str
    sign: str
    text: str

    @property
    def frame(self) -> bytes:
        return bytes.fromhex(self.text)

    @property
    def message(self) -> wire.Message:
        return message_of(self.frame)


def read(path: Path) -> list[Line]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return [Line(*line.split(" ", 2)) for line in lines]


def message_of(frame: bytes) -> wire.Message:
    (message,) = Decoder(wire.MESSAGES).feed(frame)
    return message


def frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames in what was received, and the rest."""
    found = []
    while len(data) >= 2 and len(data) >= (length := int.from_bytes(data[:2], "little")):
        found.append(data[:length])
        data = data[length:]
    return found, data


def known_lengths(version: int) -> dict[int, int]:
    """The messages of a version by their number: the least length of each, from its golden frames."""
    lengths: dict[int, int] = {}
    for line in (GOLDEN / f"v{version}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            frame = bytes.fromhex("".join(line.split()[1:]))
            lengths[frame[2]] = min(len(frame), lengths.get(frame[2], len(frame)))
    return lengths


def assert_understood(frame: bytes, version: int, *, by_library: bool) -> None:
    """A peer of that version can read it: it knows the message, and all the fields that it knows are there.

    Every library passes over messages with a higher number than it knows; a scheduler closes the connection."""
    lengths = known_lengths(version)
    number = frame[2]
    is_passed_over = by_library and number > max(lengths)
    assert number in lengths or is_passed_over, f"a peer of version {version} does not know message {number}"
    assert len(frame) >= lengths.get(number, 0), f"message {number} is too short for a peer of version {version}"


__all__ = ["CONVERSATIONS", "Line", "assert_understood", "encode", "frames", "known_lengths", "message_of", "read"]
