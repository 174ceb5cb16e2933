"""Fixtures that several areas use; named in tests/conftest.py."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import daemon as daemons
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
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedulers of this test do not refuse memory because another process of the run was slow to answer."""
    monkeypatch.setattr(daemons, "PROGRAM", [sys.executable, "-m", "support.patient_scheduler"])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


@pytest.fixture
def daemon(start_daemon: StartDaemon) -> Daemon:
    """A scheduler with default settings that serves http."""
    return start_daemon("--http", "127.0.0.1:0")
