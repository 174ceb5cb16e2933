"""Messages to bytes and back. Any bytes give messages or WireError, never another exception.

Sans-io: `encode` returns bytes, `Decoder.feed` takes whatever a socket gave, whole frames or a byte at a time."""

from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from typing import Any, cast

from msgspec.structs import astuple

from nvshare.wire.layout import HEAD, Layout, layout_of
from nvshare.wire.messages import MAX_FRAME, MAX_GPUS, MESSAGES, GpuEntry, Message, Register

LAYOUTS: dict[type[Message], Layout] = {message: layout_of(message, HEAD) for message in MESSAGES}
ENTRY_LAYOUT = layout_of(GpuEntry)

_STRUCTS = {message: layout.struct() for message, layout in LAYOUTS.items()}
_ENTRY = ENTRY_LAYOUT.struct()
_ENTRY_BOUNDS = tuple((f.name, i, f.width.most) for i, f in enumerate(ENTRY_LAYOUT.fields) if f.width.most)
_COUNT_AT = LAYOUTS[Register].offset_of("entry_count")
_STRIDE_AT = LAYOUTS[Register].offset_of("entry_size")
_FIXED_HEAD = 3
_read_head = Struct("<HB").unpack_from
"""The length of a frame and its type, which are in every frame."""


class WireError(Exception):
    """The peer sent what the protocol does not allow; the text says what. Close the connection."""


def encode(message: Message) -> bytes:
    """One message as a frame."""
    kind = type(message)
    packed = _STRUCTS[kind]
    if kind is Register:
        return _encode_register(cast("Register", message), packed)
    return packed.pack(packed.size, kind.number, *astuple(message))


def packer(kind: type[Message]) -> Callable[..., bytes]:
    """A function that makes a frame of this kind from its fields, in order; for those who make thousands a second."""
    packed = _STRUCTS[kind]
    return partial(packed.pack, packed.size, kind.number)


class Decoder:
    """Collects bytes into messages of the given kinds. After a WireError it is of no further use."""

    def __init__(self, kinds: Iterable[type[Message]]) -> None:
        self._readers = {kind.number: _reader(kind) for kind in kinds}
        self.rest = b""
        """The beginning of a frame whose end has not come."""

    def feed(self, data: bytes) -> list[Message]:
        """The messages that these bytes complete."""
        if self.rest:
            data = self.rest + data
        messages: list[Message] = []
        at, end = 0, len(data)
        while end - at >= _FIXED_HEAD:
            length, number = _read_head(data, at)
            reader = self._readers.get(number)
            if reader is None:
                raise WireError(f"unknown message type {number}")
            if not _FIXED_HEAD <= length <= MAX_FRAME:
                raise WireError(f"frame length {length} is not within {_FIXED_HEAD}..{MAX_FRAME}")
            if end - at < length:
                break
            messages.append(reader(data, at, length))
            at += length
        self.rest = data[at:]
        return messages


Reader = Callable[[bytes, int, int], Message]


def _reader(kind: type[Message]) -> Reader:
    """A function that reads one frame of this kind from data[at : at + length]."""
    packed, layout = _STRUCTS[kind], LAYOUTS[kind]
    bounds = tuple(
        (f.name, i, f.width.most) for i, f in enumerate(layout.fields) if f.width.most and f.width.fmt != "?"
    )
    make = cast("Callable[..., Message]", kind)
    is_register = kind is Register

    def read(data: bytes, at: int, length: int) -> Message:
        if length < packed.size:
            raise WireError(f"{kind.__name__} of {length} bytes, at least {packed.size} expected")
        values: tuple[Any, ...] = packed.unpack_from(data, at)
        for name, index, most in bounds:
            if values[index] > most:
                raise WireError(f"{kind.__name__}.{name} is absurd: {values[index]}")
        if is_register:
            return make(*values[2:], _decode_entries(data, at, length))
        return make(*values[2:])

    return read


def _decode_entries(data: bytes, at: int, length: int) -> tuple[GpuEntry, ...]:
    fixed = _STRUCTS[Register].size
    count, stride = data[at + _COUNT_AT], data[at + _STRIDE_AT]
    if count > MAX_GPUS:
        raise WireError(f"Register names {count} GPUs, at most {MAX_GPUS} are possible")
    if count and stride < _ENTRY.size:
        raise WireError(f"Register entries of {stride} bytes, at least {_ENTRY.size} expected")
    if fixed + count * stride > length:
        raise WireError(f"Register of {length} bytes is too short for {count} GPUs")
    return tuple(_decode_entry(data, at + fixed + i * stride) for i in range(count))


def _decode_entry(data: bytes, at: int) -> GpuEntry:
    values = _ENTRY.unpack_from(data, at)
    for name, index, most in _ENTRY_BOUNDS:
        if values[index] > most:
            raise WireError(f"GpuEntry.{name} is absurd: {values[index]}")
    return GpuEntry(*values)


def _encode_register(message: Register, packed: Struct) -> bytes:
    fixed = astuple(message)[:-1]
    entries = b"".join(_ENTRY.pack(*astuple(entry)) for entry in message.entries)
    return packed.pack(packed.size + len(entries), Register.number, *fixed) + entries
