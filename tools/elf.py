"""What the loader will ask of a shared library or a program: its machine, other libraries, and their versions."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x7fELF"
_LITTLE_64 = b"\x02\x01"
_SHT_DYNAMIC, _SHT_VERNEED = 6, 0x6FFFFFFE
_DT_NEEDED = 1


@dataclass(frozen=True)
class Elf:
    """One file, read."""

    machine: int
    needed: frozenset[str]
    """The libraries that the loader must find (DT_NEEDED)."""
    versions: frozenset[str]
    """The versions of symbols that they must have."""

    @classmethod
    def read(cls, path: Path) -> "Elf":
        return cls.parse(path.read_bytes(), str(path))

    @classmethod
    def parse(cls, data: bytes, name: str) -> "Elf":
        assert data[:6] == MAGIC + _LITTLE_64, f"{name} is no little-endian 64-bit ELF file"
        file = _File(data)
        return cls(file.number(18, 2), frozenset(file.needed()), frozenset(file.versions()))

    @property
    def newest_glibc(self) -> tuple[int, ...]:
        """The newest GLIBC_x.y that must be there."""
        found = (name.removeprefix("GLIBC_") for name in self.versions if name.startswith("GLIBC_"))
        return max((tuple(map(int, name.split("."))) for name in found), default=(0,))


class _File:
    """The sections of an ELF file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        table, size, count = self.number(40, 8), self.number(58, 2), self.number(60, 2)
        self._headers = [table + i * size for i in range(count)]

    def number(self, at: int, size: int) -> int:
        return int.from_bytes(self._data[at : at + size], "little")

    def _text(self, at: int) -> str:
        return self._data[at : self._data.index(b"\0", at)].decode()

    def _sections(self, kind: int) -> Iterator[tuple[int, int, int, int]]:
        """Offset, size, number of entries and offset of the strings of each section of a kind."""
        for header in self._headers:
            if self.number(header + 4, 4) == kind:
                strings = self.number(self._headers[self.number(header + 40, 4)] + 24, 8)
                yield self.number(header + 24, 8), self.number(header + 32, 8), self.number(header + 44, 4), strings

    def needed(self) -> Iterator[str]:
        for offset, size, _, strings in self._sections(_SHT_DYNAMIC):
            for entry in range(offset, offset + size, 16):
                if self.number(entry, 8) == _DT_NEEDED:
                    yield self._text(strings + self.number(entry + 8, 8))

    def versions(self) -> Iterator[str]:
        for need, _, count, strings in self._sections(_SHT_VERNEED):
            for _ in range(count):
                aux = need + self.number(need + 8, 4)
                for _ in range(self.number(need + 2, 2)):
                    yield self._text(strings + self.number(aux + 8, 4))
                    aux += self.number(aux + 12, 4)
                need += self.number(need + 12, 4)
