"""nvshare-dra-driver as a process, with a node's directories and the tests' API server."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from dra.fake_kubelet import FakeKubelet
from dra.fake_resource_api import FakeResourceApi
from dra.test_claims import result
from nvshare.simgpu.config import SimGpu

SOURCES = Path(__file__).parents[2] / "src"
GIB = 1 << 30


def flags(place: Path, *more: str) -> list[str]:
    ways = {
        "--run-dir": "run",
        "--operator-dir": "operator",
        "--cdi-dir": "cdi",
        "--kubelet-plugins-dir": "plugins",
        "--kubelet-registry-dir": "registry",
        "--kubelet-pod-resources-dir": "pod-resources",
        "--library": "libnvshare.so",
    }
    return [*(f"{flag}={place / name}" for flag, name in ways.items()), "--node-name=node-1", *more]


def environment(place: Path, **gpus: Any) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NVSHARE_")}
    values = {"directory": str(place / "sim"), "gpus": 2, "memory": 16 * GIB} | gpus
    return SimGpu().with_values(**values).environment(kept) | {"PYTHONPATH": str(SOURCES)}


def command(place: Path, port: int, *more: str) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("run_driver.py")), str(port), *flags(place, *more)]


@contextlib.asynccontextmanager
async def driver(place: Path, server: FakeResourceApi, *more: str, **gpus: Any) -> AsyncIterator[FakeKubelet]:
    """The driver with these flags; `gpus` are settings of the simulated GPUs."""
    program = await asyncio.create_subprocess_exec(
        *command(place, server.port, *more), env=environment(place, **gpus), stderr=asyncio.subprocess.PIPE
    )
    kubelet = FakeKubelet(place / "registry")
    instance = [flag.partition("=")[2] for flag in more if flag.startswith("--instance=")]
    try:
        await server.until(lambda: bool(server.devices()), 60)
        await kubelet.find("-".join(["gpu.nvshare.com", *instance, "reg.sock"]))
        yield kubelet
    finally:
        await kubelet.stop()
        if program.returncode is None:
            program.terminate()
        _, said = await program.communicate()
        print(said.decode())  # pytest shows it if the test failed
        assert program.returncode == 0


def claim(
    server: FakeResourceApi, uid: str, at: int = 0, annotations: dict[str, str] | None = None, **more: Any
) -> tuple[str, str]:
    """A claim that kube-scheduler has allocated on the device that is in this place now."""
    name, device = f"c-{uid}", server.devices()[at]["name"]
    devices = {"results": [result(device=device, **more)]}
    metadata = {"name": name, "namespace": "team", "uid": uid, "annotations": annotations}
    server.claims[name] = json.dumps({"metadata": metadata, "status": {"allocation": {"devices": devices}}}).encode()
    return name, uid


def files(place: Path) -> set[str]:
    return {path.name for part in (place / "operator/claims", place / "cdi") for path in part.iterdir()}
