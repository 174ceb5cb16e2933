"""libnvshare.so for other machines than this one: x86_64 and aarch64, for every glibc from 2.17 on.

    python tools/release.py [--out dist/native] [x86_64] [aarch64]

It is built by native/Makefile like the one for this machine, with another compiler: zig's, from the package `ziglang`,
which brings the C libraries of both machines in all their versions, so that no container and no cross toolchain is
needed. What comes out is checked: its machine, the newest glibc it asks for."""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLIBC = (2, 17)
MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}
CFLAGS = "-O2 -g -fno-sanitize=all -fno-stack-protector"  # zig's compiler adds both unless told not to

SHT_VERNEED, SHT_STRTAB = 0x6FFFFFFE, 3


@dataclass(frozen=True)
class Elf:
    """What a loader will ask of a shared library: its machine, and the versions it needs of others."""

    machine: int
    versions: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> "Elf":
        data = path.read_bytes()
        assert data[:6] == b"\x7fELF\x02\x01", f"{path} is no little-endian 64-bit ELF file"
        return cls(int.from_bytes(data[18:20], "little"), frozenset(_versions(data)))

    @property
    def newest_glibc(self) -> tuple[int, ...]:
        """The newest GLIBC_x.y that must be there."""
        found = (name.removeprefix("GLIBC_") for name in self.versions if name.startswith("GLIBC_"))
        return max((tuple(map(int, name.split("."))) for name in found), default=(0,))


def _versions(data: bytes) -> list[str]:
    """The names in the section of needed versions."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    table, size, count = number(40, 8), number(58, 2), number(60, 2)
    headers = [table + i * size for i in range(count)]
    names: list[str] = []
    for header in headers:
        if number(header + 4, 4) != SHT_VERNEED:
            continue
        strings = number(headers[number(header + 40, 4)] + 24, 8)
        need = number(header + 24, 8)
        for _ in range(number(header + 44, 4)):
            aux = need + number(need + 8, 4)
            for _ in range(number(need + 2, 2)):
                start = strings + number(aux + 8, 4)
                names.append(data[start : data.index(b"\0", start)].decode())
                aux += number(aux + 12, 4)
            need += number(need + 12, 4)
    return names


def build(machine: str, out: Path) -> Path:
    """One library, checked."""
    made = (out / machine / "libnvshare.so").resolve()
    objects = ROOT / "build" / f"release-{machine}"
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    settings = {"CC": compiler, "CFLAGS": CFLAGS, "NVS_ARCH": machine, "BUILD": objects, "OUT": made.parent}
    command = ["make", "-s", "-C", str(ROOT / "native"), *(f"{name}={value}" for name, value in settings.items())]
    subprocess.run([*command, str(made)], check=True)
    elf = Elf.read(made)
    if elf.machine != MACHINES[machine] or elf.newest_glibc > GLIBC:
        raise SystemExit(f"{made}: machine {elf.machine:#x}, needs {sorted(elf.versions)}")
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help=" or ".join(MACHINES))
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "native")
    arguments = parser.parse_args()
    for machine in arguments.machines or MACHINES:
        made = build(machine, arguments.out)
        needs = ".".join(map(str, Elf.read(made).newest_glibc))
        print(f"{made}: {made.stat().st_size} bytes, needs glibc {needs}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
