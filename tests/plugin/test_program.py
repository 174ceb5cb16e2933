"""nvshare-device-plugin as a whole: the program, the simulated NVML, a fake kubelet."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nvshare.plugin.served_gpus import DRA_DRIVER, GpuServedError, ServedGpus
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.events import RECOVERED, inject_xid
from plugin.fake_kubelet import FakeKubelet

SOURCES = Path(__file__).parents[2] / "src"
PROGRAM = [sys.executable, "-m", "nvshare.plugin.main"]


@pytest.fixture
def place() -> Iterator[Path]:
    """A node's directories, with a short name: a socket's path may have no more than 107 characters."""
    with TemporaryDirectory(prefix="nvs") as folder:
        for name in ("sim", "run", "kubelet"):
            (Path(folder) / name).mkdir()
        (Path(folder) / "libnvshare.so").write_bytes(b"\x7fELF the library")
        yield Path(folder)


def command(place: Path, *flags: str) -> list[str]:
    ways = {
        "--run-dir": place / "run",
        "--kubelet-dir": place / "kubelet",
        "--library": place / "libnvshare.so",
        "--served-dir": place / "served",
    }
    return [*PROGRAM, *(f"{flag}={path}" for flag, path in ways.items()), *flags]


def environment(place: Path, **settings: object) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NVSHARE_")}
    made = SimGpu().with_values(directory=str(place / "sim"), **settings).environment(kept)
    return made | {"PYTHONPATH": str(SOURCES)}


@contextlib.asynccontextmanager
async def node(
    place: Path, *flags: str, gpus: int = 2
) -> AsyncIterator[tuple[FakeKubelet, asyncio.subprocess.Process]]:
    kubelet = FakeKubelet(place / "kubelet")
    await kubelet.start()
    program = await asyncio.create_subprocess_exec(
        *command(place, *flags), env=environment(place, gpus=gpus), stderr=asyncio.subprocess.PIPE
    )
    try:
        yield kubelet, program
    finally:
        if program.returncode is None:
            program.kill()
        _, said = await program.communicate()
        print(said.decode())  # pytest shows it if the test failed
        await kubelet.stop()


def test_an_xid_error_takes_a_gpus_slots_away_and_recovery_brings_them_back(place: Path) -> None:
    async def story() -> None:
        async with node(place, "--probe-seconds=0.2") as (kubelet, _):
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)
            uuid = min(kubelet.devices).partition("__")[0]
            inject_xid(uuid, 31, directory=place / "sim")  # a program's own fault
            inject_xid(uuid, 79, directory=place / "sim")
            await kubelet.until(lambda: kubelet.allocatable == 10, 60)
            assert {slot.partition("__")[0] for slot, health in kubelet.devices.items() if health != "Healthy"} == {
                uuid
            }
            inject_xid(uuid, RECOVERED, directory=place / "sim")
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)

    asyncio.run(story())


def test_settings_decide_what_is_offered(place: Path) -> None:
    async def story() -> None:
        flags = ("--gpus=0,2", "--virtual-devices=3", "--virtual-devices-per-gpu=2=5")
        async with node(place, *flags, gpus=3) as (kubelet, _):
            await kubelet.until(lambda: kubelet.allocatable == 8, 60)

    asyncio.run(story())


def test_the_library_is_put_back_when_the_directory_is_cleared(place: Path) -> None:
    async def story() -> None:
        library = place / "run" / "lib" / "libnvshare.so"
        async with node(place) as (kubelet, program):
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)
            for _ in range(5):
                shutil.rmtree(place / "run" / "lib", ignore_errors=True)  # it may be put back meanwhile
                async with asyncio.timeout(60):
                    while not library.is_file():
                        assert program.returncode is None
                        await asyncio.sleep(0.01)
            assert program.returncode is None

    asyncio.run(story())


def test_sigterm_ends_it_cleanly(place: Path) -> None:
    async def story() -> None:
        async with node(place) as (kubelet, program):
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)
            program.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                _, said = await program.communicate()
            assert program.returncode == 0, said.decode()
            await kubelet.until(lambda: kubelet.allocatable == 0)

    asyncio.run(story())


def test_further_signals_do_not_disturb_the_end(place: Path) -> None:
    async def story() -> None:
        async with node(place) as (kubelet, program):
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)
            ended = asyncio.ensure_future(program.communicate())
            async with asyncio.timeout(60):
                while not ended.done():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(program.pid, signal.SIGTERM)  # send_signal may take the exit status from asyncio
                    await asyncio.sleep(0.001)
            assert program.returncode == 0, ended.result()[1].decode()

    asyncio.run(story())


def refusal(place: Path, *flags: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(place, *flags), env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_node_without_a_driver_is_said_in_one_line(place: Path) -> None:
    done = refusal(place, env={"PYTHONPATH": str(SOURCES), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("[NVSHARE][ERROR]: cannot use NVML")


@pytest.mark.parametrize(
    ("flags", "gpus", "said"),
    [
        ((), 0, "this node has no GPU"),
        (("--gpus=7",), 1, "this node has no GPU '7'"),
        (("--virtual-devices-per-gpu=0=0",), 1, "there is no GPU to offer"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(
    place: Path, flags: tuple[str, ...], gpus: int, said: str
) -> None:
    done = refusal(place, *flags, env=environment(place, gpus=gpus))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_gpu_is_not_offered_by_the_dra_driver_as_well(place: Path) -> None:
    driver = ServedGpus(place / "served", DRA_DRIVER)

    async def story() -> str:
        async with node(place) as (kubelet, _):
            await kubelet.until(lambda: kubelet.allocatable == 20, 60)
            uuid = min(kubelet.devices).partition("__")[0]
            with pytest.raises(GpuServedError):
                driver.take([uuid])
            return uuid

    driver.take([asyncio.run(story())])
    done = refusal(place, env=environment(place, gpus=2))
    driver.release()
    assert done.returncode == 1
    assert "is offered by nvshare-dra-driver" in done.stderr.splitlines()[-1]
