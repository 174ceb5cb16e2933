"""A cleared directory: connected clients stay, new ones find the scheduler again."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from support.altered_scheduler import serve
from support.daemon import Daemon
from support.waiting import wait_until


def clear(directory: Path) -> None:
    for entry in directory.iterdir():
        entry.unlink()


def remove(directory: Path) -> None:
    """The scheduler may be quicker, and have its socket there again before the directory is gone."""
    shutil.rmtree(directory, ignore_errors=True)


def is_removed(directory: Path) -> bool:
    remove(directory)
    return not directory.exists()


@pytest.mark.parametrize("how", [clear, remove], ids=["cleared", "removed"])
def test_a_removed_socket_is_made_again_and_nobody_is_lost(daemon: Daemon, how: Callable[[Path], None]) -> None:
    path = Path(daemon.socket)
    with daemon.client().register() as client:
        for _ in range(3):
            how(path.parent)
            wait_until(path.is_socket, "the socket is back")
            with daemon.client().register() as newcomer:
                newcomer.take_lock()
        client.take_lock()
    assert daemon.process.poll() is None


def test_a_path_that_is_taken_is_told_once_and_used_again_when_it_is_free(daemon: Daemon, tmp_path: Path) -> None:
    path, other = Path(daemon.socket), tmp_path / "other.sock"
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(other))
        stranger.listen()
        (tmp_path / "link").symlink_to(other)
        (tmp_path / "link").rename(path)
        daemon.log.wait_for("cannot be created again yet: another scheduler is answering")
    wait_until(lambda: not path.is_symlink(), "the socket is back")
    with daemon.client().register() as client:
        client.take_lock()
    assert daemon.log.text.count("cannot be created again yet") == 1


LOST = "import nvshare.scheduler.listening_socket as l; l.ListeningSocket.has_lost_directory = lambda self: True"


def test_a_directory_that_is_just_being_removed_is_not_taken_for_lost(tmp_path: Path) -> None:
    """Between two steps of rmdir() in the kernel its path still leads to it, and it has no links any more."""
    process, log = serve(tmp_path, LOST)
    path = tmp_path / "run" / "s.sock"
    try:
        clear(path.parent)
        wait_until(lambda: path.is_socket() or process.poll() is not None, "it acts")
        assert path.is_socket(), log.text
    finally:
        process.terminate()
        assert process.wait(60) == 0


MOUNT = 'mount --bind "$0" "$1" && shift && exec "$@"'


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_mount_whose_source_was_removed_ends_the_scheduler(tmp_path: Path) -> None:
    source, place = tmp_path / "source", tmp_path / "d"
    source.mkdir()
    (place / "run").mkdir(parents=True)
    wrapper = ("unshare", "--mount", "bash", "-c", MOUNT, str(source), str(place / "run"))
    with Daemon(place, wrapper=wrapper) as daemon:
        wait_until(lambda: is_removed(source), "the directory is gone, however quick the scheduler is")
        assert daemon.process.wait(60) == 70
        daemon.log.wait_for("was removed: ending")
