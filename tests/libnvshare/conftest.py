"""Programs under the library: against a null driver and a fake scheduler, or on simulated GPUs with the real one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import NULL_DRIVER, Programs
from nvshare.simgpu.config import SimGpu


def own_socket(tmp_path: Path) -> dict[str, str]:
    """Where the test's scheduler may listen. Its answer is waited for, however slow the machine is."""
    return {"NVSHARE_SOCKET": str(tmp_path / "scheduler.sock"), "NVSHARE_JOIN_MS": "60000"}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[FakeScheduler]:
    """A scheduler in the test's hand."""
    with FakeScheduler(tmp_path / "scheduler.sock") as fake:
        yield fake


@pytest.fixture
def on_card(tmp_path: Path) -> Iterator[Programs]:
    """Programs on one simulated card, with the test's own scheduler."""
    directory = tmp_path / "gpus"
    directory.mkdir()
    card = SimGpu().with_values(directory=str(directory), gpus=1, memory="16Gi", scale=0.01)
    with Programs(tmp_path, {**card.environment({}), **own_socket(tmp_path)}) as started:
        yield started


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs on the null driver; ends what a test leaves behind."""
    with Programs(tmp_path, {"LD_LIBRARY_PATH": str(NULL_DRIVER), **own_socket(tmp_path)}) as started:
        yield started
