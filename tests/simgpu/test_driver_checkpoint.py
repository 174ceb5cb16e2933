"""Checkpoints on the simulated card: two processes take turns on memory that does not fit together."""

import signal
from pathlib import Path

import pytest

from simgpu.node import MakeNode, Node
from support.simgpu_worker import GIB, MIB, Worker

CONTEXT = 256 * MIB
NOT_SUPPORTED, OUT_OF_MEMORY = "801", "2"


@pytest.fixture
def card(make_node: MakeNode) -> Node:
    return make_node(gpus=1, memory="4Gi", scale=0.01)


def test_a_process_that_is_saved_has_nothing_on_the_card_and_keeps_its_bytes(card: Node, checks: Path) -> None:
    with Worker(card, checks) as one, Worker(card, checks) as other:
        assert one.ask(f"native {3 * GIB}") == "0"
        one.ask("poke 77")
        assert other.ask(f"native {3 * GIB}") == OUT_OF_MEMORY
        assert one.ask("save") == "0"
        assert other.used() == CONTEXT  # its own
        assert other.ask(f"native {3 * GIB}") == "0"
        assert other.ask("save") == "0"
        assert one.ask("back") == "0"
        assert one.ask("peek") == "77"
        assert one.used() == CONTEXT + 3 * GIB


def test_a_restore_on_a_full_card_fails(card: Node, checks: Path) -> None:
    with Worker(card, checks) as one, Worker(card, checks) as other:
        assert one.ask(f"native {3 * GIB}") == "0"
        assert one.ask("save") == "0"
        assert other.ask(f"native {3 * GIB}") == "0"
        assert one.ask("back") == OUT_OF_MEMORY


def test_a_process_that_dies_while_it_is_saved_leaves_nothing_behind(card: Node, checks: Path) -> None:
    with Worker(card, checks) as one, Worker(card, checks) as other:
        assert one.ask(f"native {3 * GIB}") == "0"
        assert one.ask("save") == "0"
        one.process.kill()
        one.process.wait()
        assert other.ask(f"native {3 * GIB}") == "0"
        assert other.used() == CONTEXT + 3 * GIB


def test_what_the_host_cannot_take_ends_the_process(card: Node, checks: Path) -> None:
    with Worker(card, checks, NVSHARE_SIM_HOST_MEMORY="1Gi") as one:
        assert one.ask(f"native {3 * GIB}") == "0"
        one.tell("save")
        assert one.process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("settings", [{"NVSHARE_SIM_CUDA_VERSION": "12060"}, {"NVSHARE_SIM_CHECKPOINT": "lock-fails"}])
def test_a_driver_without_checkpoints_refuses(card: Node, checks: Path, settings: dict[str, str]) -> None:
    with Worker(card, checks, **settings) as one:
        assert one.ask("save") == NOT_SUPPORTED


def test_mig_instances_have_no_checkpoints(make_node: MakeNode, checks: Path) -> None:
    with Worker(make_node(gpus=1, memory="4Gi", scale=0.01, mig=1), checks) as one:
        assert one.ask("save") == NOT_SUPPORTED
