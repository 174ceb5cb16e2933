"""What is published: a wheel for x86_64 and one for aarch64, for every glibc from 2.17 on, and the sources.

    python tools/release.py [--out build/release] [--library-only] [x86_64] [aarch64]

The C parts are built by native/Makefile like those for this machine, with another compiler: zig's, from the package
`ziglang`. It brings the C libraries of both machines in all their versions, so that no container and no cross toolchain
is needed. What comes out is checked: each file is for its machine and needs no newer glibc than promised."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from elf import MAGIC, Elf

ROOT = Path(__file__).resolve().parents[1]
GLIBC = (2, 17)
MACHINES = {"x86_64": 0x3E, "aarch64": 0xB7}
CFLAGS = "-O2 -g -fno-sanitize=all -fno-stack-protector"  # zig's compiler adds both unless told not to
NEEDED = {
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
"""The libraries of manylinux2014 that are used here."""
DRIVER = "libcuda.so.1"
"""The programs in demo/ and the probe need the driver: NVIDIA's, or the simulated one in the wheel."""


def compile_native(machine: str, out: Path, *targets: str) -> Path:
    """The C parts for a machine, or some of them, in a directory of their own."""
    made = (out / machine).resolve()
    objects = ROOT / "build" / f"release-{machine}"
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    settings = {"CC": compiler, "CFLAGS": CFLAGS, "NVS_ARCH": machine, "BUILD": objects, "OUT": made}
    command = [
        "make",
        "-s",
        "-j2",
        "-C",
        str(ROOT / "native"),
        *(f"{name}={value}" for name, value in settings.items()),
    ]
    subprocess.run([*command, *(str(made / target) for target in targets)], check=True)
    return made


def library(machine: str, out: Path) -> Path:
    """libnvshare.so alone, checked."""
    made = compile_native(machine, out, "libnvshare.so") / "libnvshare.so"
    _refuse(made, list(_violations("libnvshare.so", Elf.read(made), machine)))
    return made


def platform_tag(machine: str) -> str:
    """Both names of the same promise; old versions of pip know only the second."""
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}.manylinux2014_{machine}"


def wheel(machine: str, out: Path) -> Path:
    """One wheel, checked. It needs the package itself, to make the man pages."""
    import man_pages

    native = compile_native(machine, ROOT / "build" / "release-native")
    pages = ROOT / "build" / "release-man"
    man_pages.write(pages)
    told = {"NVSHARE_NATIVE": str(native), "NVSHARE_PLATFORM": platform_tag(machine), "NVSHARE_MAN": str(pages)}
    made = _hatch("wheel", out, **told)
    _refuse(made, violations(made, machine))
    return made


def sources(out: Path) -> Path:
    return _hatch("sdist", out)


def _hatch(target: str, out: Path, **variables: str) -> Path:
    """The one file that hatchling builds."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", directory]
        subprocess.run(command, cwd=ROOT, env=os.environ | variables, check=True)
        (made,) = Path(directory).iterdir()
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(made, out / made.name))


def violations(made: Path, machine: str) -> list[str]:
    """What in a wheel breaks the promise of its name."""
    with zipfile.ZipFile(made) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    found = {name: Elf.parse(data, name) for name, data in files.items() if data.startswith(MAGIC)}
    problems = [problem for name, file in found.items() for problem in _violations(name, file, machine)]
    return problems if "nvshare/_native/libnvshare.so" in found else ["libnvshare.so is not in it", *problems]


def _violations(name: str, file: Elf, machine: str) -> Iterator[str]:
    if file.machine != MACHINES[machine]:
        yield f"{name} is for machine {file.machine:#x}"
    if file.newest_glibc > GLIBC:
        yield f"{name} needs glibc {'.'.join(map(str, file.newest_glibc))}"
    if others := file.needed - NEEDED - {DRIVER}:
        yield f"{name} needs {', '.join(sorted(others))}"


def _refuse(made: Path, problems: list[str]) -> None:
    if problems:
        raise SystemExit("\n".join([f"{made}:", *problems]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("machines", nargs="*", metavar="MACHINE", help=" or ".join(MACHINES))
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--library-only", action="store_true", help="only libnvshare.so, into OUT/MACHINE")
    arguments = parser.parse_args()
    build = library if arguments.library_only else wheel
    made = [build(machine, arguments.out) for machine in arguments.machines or MACHINES]
    if not arguments.machines and not arguments.library_only:
        made.append(sources(arguments.out))
    for path in made:
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
