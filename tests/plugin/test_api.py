"""The generated API is what the .proto says."""

import subprocess
import sys
from pathlib import Path

import pytest


def test_the_generated_api_is_not_stale() -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed (development group)")
    tool = Path(__file__).parents[2] / "tools" / "plugin_api.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
