"""A program with more contexts than the library notes."""

from pathlib import Path

from libnvshare.conftest import own_socket
from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.simgpu.config import SimGpu
from nvshare.wire.messages import ReqLock

MOST_CONTEXTS = 1024


def test_that_work_in_further_contexts_does_not_wait_is_said_once(tmp_path: Path, scheduler: FakeScheduler) -> None:
    directory = tmp_path / "gpus"
    directory.mkdir()
    card = SimGpu().with_values(directory=str(directory), gpus=1, memory="16Gi", context_memory="1Mi", scale=0.01)
    with Programs(tmp_path, {**card.environment({}), **own_socket(tmp_path)}) as programs:
        program = programs.start()
        peer = scheduler.join(program)  # with its first context
        program.do(f"contexts {MOST_CONTEXTS - 1}")
        assert program.said() == ""
        program.do("contexts 2")
        program.do("spin 1 1")
        assert program.said().count("more than 1024 CUDA contexts") == 1
        assert peer.heard(ReqLock) == []
