"""Peer access between the GPUs of one process: memory stays on the GPU that it was allocated on."""

from pathlib import Path

from libnvshare.conftest import own_socket
from libnvshare.programs import MIB, NOT_INSTALLED, Program, Programs
from nvshare.simgpu.config import SimGpu

BYTES = 4 * MIB
ANYWHERE = "-2"


def allocated(program: Program, gpu: int, how: str = "alloc") -> str:
    program.do(f"use {gpu}")
    return program.do(f"{how} {BYTES}")[0]


def place(program: Program, address: str) -> str:
    return program.do(f"preferred {address} {BYTES}")[0]


def test_memory_prefers_the_gpu_that_it_was_allocated_on_from_the_first_peer_access_on(tmp_path: Path) -> None:
    (tmp_path / "gpus").mkdir()
    card = SimGpu().with_values(directory=str(tmp_path / "gpus"), gpus=2, memory="16Gi", scale=0.01)
    environment = {**card.environment({}), **own_socket(tmp_path), "NVSHARE_SOCKET": NOT_INSTALLED}
    with Programs(tmp_path, environment) as programs:
        program = programs.start()
        program.do("init 0")
        program.do("init 1")
        before = [allocated(program, gpu) for gpu in (0, 1)]
        own = allocated(program, 1, "managed")
        assert [place(program, address) for address in before] == [ANYWHERE, ANYWHERE]
        program.do("peers")
        after = [allocated(program, gpu) for gpu in (0, 1)]
        assert [place(program, address) for address in before + after] == ["0", "1", "0", "1"]
        assert [place(program, address) for address in (own, allocated(program, 1, "managed"))] == [ANYWHERE, ANYWHERE]
        program.finish()
