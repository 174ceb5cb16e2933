"""Where each field of a message lies: the rules a C compiler follows, worked out once for both languages."""

import struct
from typing import get_type_hints

from nvshare.record import Record
from nvshare.wire.messages import Width, width_of

HEAD = (("length", Width("H", "uint16_t")), ("type", Width("B", "uint8_t")))
"""What every frame starts with, before the fields that its class declares."""


class Field(Record, frozen=True):
    """One field of a frame, at its offset."""

    name: str
    width: Width
    offset: int


class Layout(Record, frozen=True):
    """All fields of a frame and its size, padded to its strictest alignment."""

    fields: tuple[Field, ...]
    size: int

    def offset_of(self, name: str) -> int:
        """Where a field lies."""
        return next(field.offset for field in self.fields if field.name == name)

    def struct(self) -> struct.Struct:
        """The same as a Python struct, paddings included."""
        fmt, at = "<", 0
        for field in self.fields:
            fmt += f"{field.offset - at}x{field.width.fmt}"
            at = field.offset + _size(field.width)
        return struct.Struct(f"{fmt}{self.size - at}x")


def layout_of(record: type[Record], head: tuple[tuple[str, Width], ...] = ()) -> Layout:
    """The layout of a record's fields behind a head; fields that are not of fixed width are left out."""
    declared = get_type_hints(record, include_extras=True)
    named = [(name, width_of(declared[name])) for name in record.__struct_fields__]
    fields, at, strictest = [], 0, 1
    for name, width in [*head, *named]:
        if width is None:
            continue
        alignment = _alignment(width)
        at = _padded(at, alignment)
        fields.append(Field(name, width, at))
        at += _size(width)
        strictest = max(strictest, alignment)
    return Layout(tuple(fields), _padded(at, strictest))


def _size(width: Width) -> int:
    return struct.calcsize("<" + width.fmt)


def _alignment(width: Width) -> int:
    return 1 if width.fmt.endswith("s") else _size(width)


def _padded(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment
