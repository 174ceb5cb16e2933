"""Fixtures that several areas use; named in tests/conftest.py."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.daemon import Daemon

StartDaemon = Callable[..., Daemon]


@pytest.fixture
def start_daemon(tmp_path: Path) -> Iterator[StartDaemon]:
    """Starts schedulers in the test's directory: `start_daemon("--grace-seconds", "1")`; all are ended with it."""
    started: list[Daemon] = []

    def start(*options: str, wrapper: tuple[str, ...] = (), **environment: str) -> Daemon:
        daemon = Daemon(tmp_path, *options, wrapper=wrapper, **environment)
        started.append(daemon)
        return daemon

    yield start
    for daemon in started:
        daemon.kill()


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    """A scheduler with default settings that serves http."""
    return start_daemon("--http", "127.0.0.1:0")
