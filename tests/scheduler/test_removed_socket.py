"""A cleared directory: whoever is connected stays, newcomers find the scheduler again."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import Daemon


def clear(directory: Path) -> None:
    for entry in directory.iterdir():
        entry.unlink()


def remove(directory: Path) -> None:
    """The scheduler may be quicker, and have its socket there again before the directory is gone."""
    shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize("how", [clear, remove], ids=["cleared", "removed"])
def test_a_removed_socket_is_made_anew_and_nobody_is_lost(daemon: Daemon, how: Callable[[Path], None]) -> None:
    path = Path(daemon.socket)
    with daemon.client().register() as client:
        for _ in range(3):
            how(path.parent)
            deadline = time.monotonic() + 10
            while not path.is_socket():
                assert time.monotonic() < deadline, "the socket did not come back"
                time.sleep(0.01)
            with daemon.client().register() as newcomer:
                newcomer.take_lock()
        client.take_lock()
    assert daemon.process.poll() is None
