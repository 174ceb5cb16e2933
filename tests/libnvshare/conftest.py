"""Programs under the library: against a null driver and a fake scheduler, or on simulated GPUs with the real one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_scheduler import FakeScheduler
from programs import NULL_DRIVER, Programs

from nvshare.simgpu.config import SimGpu


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
    with Programs(tmp_path, {**card.environment({}), "NVSHARE_SOCKET": str(tmp_path / "scheduler.sock")}) as started:
        yield started


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs on the null driver; ends what a test leaves behind."""
    with Programs(
        tmp_path, {"LD_LIBRARY_PATH": str(NULL_DRIVER), "NVSHARE_SOCKET": str(tmp_path / "scheduler.sock")}
    ) as started:
        yield started
