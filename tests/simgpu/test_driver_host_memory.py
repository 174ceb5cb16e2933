"""Host memory of processes on the simulated card: what is evicted is charged to its owner."""

import signal
from pathlib import Path

import pytest

from simgpu.node import MakeNode, Node
from support.simgpu_worker import GIB, MIB, Worker

CONTEXT = 256 * MIB
OUT_OF_MEMORY = "2"


@pytest.fixture
def card(make_node: MakeNode) -> Node:
    return make_node(gpus=1, memory="4Gi", scale=0.01)


def touched(worker: Worker, size: int) -> None:
    assert worker.ask(f"managed {size}") == "0"
    worker.ask("pass 1")


def ending(worker: Worker) -> tuple[int, str]:
    worker.process.wait(60)
    assert worker.process.stderr is not None
    return worker.process.returncode, worker.process.stderr.read()


def test_a_process_with_more_evicted_memory_than_host_memory_is_killed_no_matter_which_one_evicted_it(
    card: Node, checks: Path
) -> None:
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="1Gi") as victim, Worker(card, checks) as other:
        touched(victim, 3 * GIB)
        touched(other, 2 * GIB - 2 * CONTEXT)
        assert victim.ask("info") != "", "what was evicted fits"
        touched(other, 2 * GIB)
        code, said = ending(victim)
        assert code == -signal.SIGKILL
        assert "evicted memory exceeds NVSHARE_SIM_HOST_MEMORY" in said
        assert other.simulated_s("pass 1") > 0
        assert other.used() == CONTEXT + 4 * GIB - 2 * CONTEXT, "its memory is free"


def test_memory_that_was_never_touched_is_no_host_memory(card: Node, checks: Path) -> None:
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="256Mi") as worker:
        assert worker.ask(f"managed {3 * GIB}") == "0"
        assert worker.used() == CONTEXT
        touched(worker, GIB)
        assert worker.used() == CONTEXT + GIB


def test_a_process_that_moves_too_much_to_the_host_itself_is_killed(card: Node, checks: Path) -> None:
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="256Mi") as worker:
        touched(worker, GIB)
        worker.tell("evict")
        assert ending(worker)[0] == -signal.SIGKILL


def test_memory_that_came_back_is_no_host_memory(card: Node, checks: Path) -> None:
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="1Gi") as worker:
        touched(worker, GIB)
        for _ in range(3):
            worker.ask("evict")
            worker.ask("prefetch")
        worker.ask("evict")
        assert worker.ask("free") == "0"
        touched(worker, GIB)
        worker.ask("evict")
        assert worker.used() == CONTEXT


def test_a_host_that_refuses_leaves_memory_on_the_card(make_node: MakeNode, checks: Path) -> None:
    card = make_node(gpus=1, memory="4Gi", scale=0.01, host_full="refuse")
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="1Gi") as victim, Worker(card, checks) as other:
        touched(victim, 3 * GIB)
        room = 4 * GIB - 2 * CONTEXT - 2 * GIB
        assert other.ask(f"native {room + 2 * MIB}") == OUT_OF_MEMORY
        assert other.ask(f"native {room}") == "0"
        assert victim.used() == 4 * GIB
        victim.ask("evict")  # the host has all that it takes
        assert victim.used() == 4 * GIB
