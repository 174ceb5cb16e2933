"""The library on the host: put there whole, kept there, repaired."""

import os
from pathlib import Path

import pytest

from nvshare.plugin.install import HostDirGoneError, install


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libnvshare.so"
    path.write_bytes(b"\x7fELF new")
    return path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    return path


def test_the_library_is_installed_once_and_readable_by_all(library: Path, run_dir: Path) -> None:
    before = os.umask(0o077)
    try:
        written = install(library, run_dir)
    finally:
        os.umask(before)
    assert written == [run_dir / "lib/libnvshare.so", run_dir / "lib/ld.so.preload"]
    assert (run_dir / "lib/libnvshare.so").stat().st_mode & 0o777 == 0o755
    assert (run_dir / "lib").stat().st_mode & 0o777 == 0o755
    assert (run_dir / "lib/ld.so.preload").read_text() == "/usr/lib/nvshare/libnvshare.so\n"
    assert install(library, run_dir) == []
    assert sorted(path.name for path in (run_dir / "lib").iterdir()) == ["ld.so.preload", "libnvshare.so"]


def test_a_mapped_library_lives_on(library: Path, run_dir: Path) -> None:
    install(library, run_dir)
    with (run_dir / "lib/libnvshare.so").open("rb") as old:
        library.write_bytes(b"\x7fELF newer")
        assert install(library, run_dir) == [run_dir / "lib/libnvshare.so"]
        assert old.read() == b"\x7fELF new"
    assert (run_dir / "lib/libnvshare.so").read_bytes() == b"\x7fELF newer"


def test_directories_left_by_a_runtime_are_repaired_and_the_mounted_one_kept(library: Path, run_dir: Path) -> None:
    (run_dir / "lib/libnvshare.so").mkdir(parents=True)
    (run_dir / "lib/ld.so.preload").mkdir()
    mounted = os.open(run_dir / "lib", os.O_RDONLY | os.O_DIRECTORY)  # held, so that no other gets its inode
    try:
        install(library, run_dir)
        assert os.path.samestat(os.fstat(mounted), (run_dir / "lib").stat())
    finally:
        os.close(mounted)
    assert (run_dir / "lib/libnvshare.so").is_file()


def test_a_link_in_the_librarys_place_is_not_followed(library: Path, run_dir: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(library.read_bytes())
    (run_dir / "lib").mkdir()
    (run_dir / "lib/libnvshare.so").symlink_to(victim)
    library.write_bytes(b"\x7fELF newer")
    install(library, run_dir)
    assert not (run_dir / "lib/libnvshare.so").is_symlink()
    assert victim.read_bytes() == b"\x7fELF new"


def test_a_removed_host_directory_is_said_with_its_remedy(library: Path, tmp_path: Path) -> None:
    with pytest.raises(HostDirGoneError, match="restart"):
        install(library, tmp_path / "nowhere")


def test_a_directory_removed_between_two_looks_at_it_is_made_again(
    library: Path, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_mkdir = os.mkdir
    removed: list[str] = []

    def mkdir_then_remove(path: str, mode: int = 0o777) -> None:
        try:
            real_mkdir(path, mode)
        except FileExistsError:
            Path(path).rmdir()
            removed.append(path)
            raise

    (run_dir / "lib").mkdir()
    monkeypatch.setattr(os, "mkdir", mkdir_then_remove)
    assert install(library, run_dir) == [run_dir / "lib/libnvshare.so", run_dir / "lib/ld.so.preload"]
    assert len(removed) == 1


def test_installing_again_touches_nothing(tmp_path: Path) -> None:
    """We are woken by every change of the directory: a touch of ours would wake us for ever."""
    library = tmp_path / "libnvshare.so"
    library.write_bytes(b"library")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    install(library, run_dir)
    before = {path: path.stat().st_ctime_ns for path in [run_dir, *run_dir.rglob("*")]}
    assert install(library, run_dir) == []
    assert {path: path.stat().st_ctime_ns for path in [run_dir, *run_dir.rglob("*")]} == before
