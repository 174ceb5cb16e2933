"""Running the front door as a user does: as a process, in a runtime directory of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short XDG_RUNTIME_DIR, as sockets need."""
    folder = tmp_path_factory.mktemp("r")
    folder.chmod(0o700)
    return folder


@pytest.fixture
def environment(runtime: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NVSHARE_SIM")}
    kept.pop("LD_PRELOAD", None)
    kept.pop("NVSHARE_SOCKET", None)
    return kept | {"XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(SOURCE), "COLUMNS": "110"}


Front = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def nvshare(environment: dict[str, str]) -> Front:
    """`nvshare(*args)` runs to its end and gives what it printed."""

    def call(*args: str, module: str = "nvshare", **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", f"nvshare.cli.{module}", *args]
        return subprocess.run(
            command, env=environment | variables, capture_output=True, text=True, timeout=300, check=False
        )

    return call
