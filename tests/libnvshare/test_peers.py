"""Peer access between the GPUs of one process: memory stays on the GPU that it was allocated on."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from libnvshare.conftest import own_socket
from libnvshare.programs import CHECKS, MIB, NOT_INSTALLED, Program, Programs
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import read_traces

BYTES = 4 * MIB
ANYWHERE = "-2"


def allocated(program: Program, gpu: int, how: str = "alloc") -> str:
    program.do(f"use {gpu}")
    return program.do(f"{how} {BYTES}")[0]


def place(program: Program, address: str) -> str:
    return program.do(f"preferred {address} {BYTES}")[0]


CARDS = 2


@pytest.fixture
def on_cards(tmp_path: Path) -> Iterator[Programs]:
    (tmp_path / "gpus").mkdir()
    card = SimGpu().with_values(directory=str(tmp_path / "gpus"), gpus=CARDS, memory="16Gi", scale=0.01, trace=1)
    environment = {**card.environment({}), **own_socket(tmp_path), "NVSHARE_SOCKET": NOT_INSTALLED}
    with Programs(tmp_path, environment) as programs:
        yield programs


class Lookers:
    """How much the cards themselves say is on them, to programs without the library."""

    def __init__(self, programs: Programs) -> None:
        start = partial(programs.start, CHECKS / "simgpu_worker", LD_PRELOAD="")
        self._programs = [start(CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in range(CARDS)]
        assert [program.answer() for program in self._programs] == [["ready"]] * CARDS

    def used(self) -> list[int]:
        """In MiB."""
        figures = [map(int, program.ask("info")) for program in self._programs]
        return [(total - free) // MIB for free, total in figures]


def touch(program: Program, gpu: int, address: str) -> None:
    program.do(f"use {gpu}")
    program.do(f"touch {address} {BYTES}")
    program.do("sync")


def moves(programs: Programs) -> list[int]:
    """For each kernel that touched memory: how long it waited for pages, in nanoseconds."""
    traces = read_traces(programs.directory / "gpus")
    return [kernel.page_in_ns for trace in traces for kernel in trace.kernels() if kernel.name == "sim_touch"]


def test_memory_without_a_place_moves_to_the_card_that_touches_it(on_cards: Programs) -> None:
    lookers = Lookers(on_cards)
    program = on_cards.start()
    program.do("init 0")
    program.do("init 1")
    nothing = lookers.used()
    address = allocated(program, 0)
    places = []
    for gpu in (0, 1, 1, 0):
        touch(program, gpu, address)
        places.append([now - then for now, then in zip(lookers.used(), nothing, strict=True)])
    assert places == [[4, 0], [0, 4], [0, 4], [4, 0]]
    first, moved, there, back = moves(on_cards)
    assert there == 0
    assert min(first, moved, back) > 0
    program.do(f"free {address}")
    assert lookers.used() == nothing


def test_memory_of_a_process_with_peer_access_stays_where_it_was_allocated(on_cards: Programs) -> None:
    lookers = Lookers(on_cards)
    program = on_cards.start()
    program.do("init 0")
    program.do("init 1")
    program.do("peers")
    nothing = lookers.used()
    address = allocated(program, 0)
    for gpu in (0, 1, 0, 1):
        touch(program, gpu, address)
        assert [now - then for now, then in zip(lookers.used(), nothing, strict=True)] == [4, 0]
    first, over_link, there, _ = moves(on_cards)
    assert there == 0
    assert 0 < over_link < first


def test_memory_prefers_the_gpu_that_it_was_allocated_on_from_the_first_peer_access_on(on_cards: Programs) -> None:
    program = on_cards.start()
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
