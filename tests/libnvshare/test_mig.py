"""A program on a MIG instance: the scheduler gets the instance's UUID and kind."""

from pathlib import Path

from libnvshare.conftest import own_socket
from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.simgpu.config import SimGpu
from nvshare.wire.messages import GpuKind


def test_a_mig_instance_is_registered_as_one(tmp_path: Path, scheduler: FakeScheduler) -> None:
    (tmp_path / "gpus").mkdir()
    card = SimGpu().with_values(directory=str(tmp_path / "gpus"), gpus=2, memory="10Gi", scale=0.01, mig=True)
    with Programs(tmp_path, {**card.environment({}), **own_socket(tmp_path)}) as programs:
        program = programs.start()
        program.say("init 1")
        _, register = scheduler.welcome()
        program.answer()
        assert [entry.kind for entry in register.entries] == [GpuKind.MIG, GpuKind.MIG]
        program.finish()
