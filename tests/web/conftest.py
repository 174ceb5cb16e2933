"""A real scheduler that serves HTTP, and players at it."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SOURCE = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True)
class Scheduler:
    """Where a running scheduler is."""

    socket: str
    operator_socket: str
    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def start(folder: Path, *options: str, http: str = "127.0.0.1:0") -> Scheduler:
    """Start one and wait until it says that it is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(str(folder / "n"))
        inbox.settimeout(60)
        paths = (str(folder / "c" / "s.sock"), str(folder / "o" / "c.sock"))
        command = [sys.executable, "-m", "nvshare.scheduler.main", "--socket", paths[0], "--operator-socket", paths[1]]
        command += ["--http", http, "--nvml", "off", *options]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "NOTIFY_SOCKET": str(folder / "n")}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stderr=log)
        assert inbox.recv(100) == b"READY=1"
    served = re.search(r"http at \S*:(\d+)", (folder / "log").read_text())
    assert served is not None
    return Scheduler(*paths, int(served[1]), process)


def with_turns(folder: Path, seconds: int) -> Iterator[Scheduler]:
    running = start(folder, "--switch-time-mode", "fixed", "--switch-time-fixed", str(seconds))
    yield running
    running.process.terminate()
    assert running.process.wait(60) == 0


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """With turns of a second."""
    yield from with_turns(tmp_path, 1)


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Scheduler]:
    """With turns that last longer than a test."""
    yield from with_turns(tmp_path, 600)


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """With scroll bars, as people have them, if the module says so: the one that appears must not move anything."""
    shown = ["--hide-scrollbars"] if getattr(request.module, "HAS_SCROLL_BARS", False) else []
    chromium = shutil.which("chromium")
    assert chromium, "the browser tests need chromium (apt-get install chromium), or NVSHARE_TEST_NO_BROWSER=1"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=FLAGS, ignore_default_args=shown, timeout=60_000
        )
        yield launched
        launched.close()
