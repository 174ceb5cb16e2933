"""The files of a cgroup, as the kernel shows them."""

from pathlib import Path


def write_v2(directory: Path, *, limit: int | None, current: int, kernel: int | None = 0, cache: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "memory.max").write_text(f"{'max' if limit is None else limit}\n")
    (directory / "memory.current").write_text(f"{current}\n")
    kernel_line = "" if kernel is None else f"kernel {kernel}\n"
    (directory / "memory.stat").write_text(f"anon 1\nfile {cache}\n{kernel_line}inactive_file {cache}\n")
