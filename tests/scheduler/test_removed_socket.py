"""A cleared directory: whoever is connected stays, newcomers find the scheduler again."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import Daemon
from support.waiting import wait_until


def clear(directory: Path) -> None:
    for entry in directory.iterdir():
        entry.unlink()


def remove(directory: Path) -> None:
    """The scheduler may be quicker, and have its socket there again before the directory is gone."""
    shutil.rmtree(directory, ignore_errors=True)


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
