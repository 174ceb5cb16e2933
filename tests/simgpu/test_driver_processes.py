"""One card, many processes: they meet whatever their namespaces are, and leave nothing behind however they end."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from nvshare.simgpu.config import library_directory
from simgpu.node import MakeNode
from support.simgpu_worker import GIB, MIB, Worker
from support.waiting import wait_until

CONTEXT = 256 * MIB
TEN_MINUTES_US = 60_000_000_000
"""On a card a hundred times faster than life."""


def test_a_hundred_processes_come_and_go_by_sigkill_and_the_card_is_empty(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, memory="64Gi", scale=0.01)
    with Worker(node, checks) as witness:
        before = witness.used()
        for _ in range(10):
            workers = [Worker(node, checks) for _ in range(10)]
            for number, worker in enumerate(workers):
                worker.tell(f"managed {(number + 1) * 100 * MIB}")
                worker.tell("start 5")
                worker.tell(f"native {50 * MIB}")
            for worker in workers:
                worker.answer()
            assert witness.used() > before
            for worker in workers:
                worker.kill()
        assert witness.used() == before
        witness.ask(f"managed {1 * GIB}")
        assert witness.simulated_s("pass 1") == pytest.approx(0.382, rel=0.1)  # and it still works


def test_memory_of_a_dead_process_is_there_for_the_next_one_at_once(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, memory="16Gi", scale=0.01)
    with Worker(node, checks) as survivor:
        other = Worker(node, checks)
        assert other.ask(f"native {12 * GIB}") == "0"
        assert survivor.ask(f"native {12 * GIB}") == "2"
        other.kill()
        assert survivor.ask(f"native {12 * GIB}") == "0"


def test_a_process_killed_while_it_computes_does_not_hold_the_others_up(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, scale=0.01)
    with Worker(node, checks) as survivor:
        other = Worker(node, checks)
        other.tell(f"spin {TEN_MINUTES_US}")
        survivor.ask("spin 1000")
        other.kill()
        started = time.monotonic()
        survivor.ask("spin 1000")
        assert time.monotonic() - started < 60


def test_a_process_that_is_stopped_while_it_computes_is_passed_over(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, scale=0.01)
    with Worker(node, checks) as survivor:
        other = Worker(node, checks)
        other.tell(f"spin {TEN_MINUTES_US}")
        survivor.ask("spin 1000")
        other.process.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        survivor.ask("spin 1000")
        assert time.monotonic() - started < 60
        other.kill()


def test_the_card_goes_on_with_what_was_submitted_while_no_process_has_a_processor(
    make_node: MakeNode, checks: Path
) -> None:
    """As when the host of a virtual machine gives its processors to another one."""
    node = make_node(gpus=1, scale=1.0, trace=1)
    with Worker(node, checks) as first, Worker(node, checks) as second:
        pids = first.process.pid, second.process.pid
        for worker in (first, second):
            worker.ask("spins 5000")
        for _ in range(4):
            time.sleep(0.05)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        for worker in (first, second):
            worker.ask("spin 1")
    kernels = [kernel for trace in node.traces() for kernel in list(trace.kernels())[:-1]]
    from_ns, to_ns = min(kernel.begin_ns for kernel in kernels), max(kernel.known_end_ns for kernel in kernels)
    assert len(kernels) == 200
    assert 1 <= (to_ns - from_ns) / (200 * 5_000_000) < 1.1


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_processes_in_different_namespaces_share_the_card(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, memory="16Gi", scale=0.01, trace=1)
    apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--ipc")
    with Worker(node, checks, *apart) as first, Worker(node, checks, *apart) as second:
        assert first.ask("uuid 0") == second.ask("uuid 0")
        assert first.ask(f"native {6 * GIB}") == "0"
        assert second.used() == 6 * GIB + 2 * CONTEXT
        assert second.ask(f"native {12 * GIB}") == "2"
        for worker in (first, second):  # both compute: the turn goes back and forth
            worker.tell("spin 2000000")
        for worker in (first, second):
            assert float(worker.answer()) > 2000
        first.kill()
        # Not at once: the namespace's init has to die with its parent first.
        wait_until(lambda: second.used() == CONTEXT, "the first one's memory is free")
    assert len({trace.pid_namespace for trace in node.traces()}) == 2


def test_a_forked_child_is_refused_and_does_not_keep_its_parent_alive(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, scale=0.01)
    with Worker(node, checks) as witness:
        parent = Worker(node, checks)
        assert parent.ask(f"native {1 * GIB}") == "0"
        assert parent.ask("fork") == "3"  # not initialised
        assert witness.used() == 1 * GIB + 2 * CONTEXT
        parent.process.kill()
        parent.process.wait()
        assert witness.used() == CONTEXT
        parent.process.communicate()


def test_the_first_process_decides_the_settings_and_they_hold_while_anyone_is_there(
    make_node: MakeNode, checks: Path
) -> None:
    node, smaller = make_node(gpus=1, memory="8Gi"), make_node(gpus=1, memory="2Gi")
    with Worker(node, checks) as first:
        with Worker(smaller, checks) as second:
            assert second.ask("info").split()[1] == str(8 * GIB)
        uuid = first.ask("uuid 0")
    with Worker(smaller, checks) as alone:
        assert alone.ask("info").split()[1] == str(2 * GIB)
        assert alone.ask("uuid 0") == uuid


def test_visible_devices_are_chosen_by_index_and_by_uuid(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=3)
    with Worker(node, checks) as all_of_them:
        uuids = [all_of_them.ask(f"uuid {index}") for index in range(3)]
        text = f"GPU-{uuids[1][:8]}-{uuids[1][8:12]}-{uuids[1][12:16]}-{uuids[1][16:20]}-{uuids[1][20:]}"
        with Worker(node, checks, CUDA_VISIBLE_DEVICES=f"2,{text}") as some:
            assert [some.ask("uuid 0"), some.ask("uuid 1")] == [uuids[2], uuids[1]]
    hidden = node.start(checks / "simgpu_worker", CUDA_VISIBLE_DEVICES="")
    assert "error 100" in hidden.communicate()[1]


@pytest.mark.parametrize("size", [1000, 30 * MIB])
def test_device_memory_is_shared_by_handle_and_managed_memory_is_not(
    make_node: MakeNode, checks: Path, size: int
) -> None:
    node = make_node(gpus=1, memory="1Gi")
    with Worker(node, checks) as owner, Worker(node, checks) as guest:
        assert owner.ask(f"managed {size}") == "0"
        assert owner.ask("export") == "1"  # invalid value
        assert owner.ask(f"native {size}") == "0"
        owner.ask("poke 4711")
        before = guest.used()
        handle = owner.ask("export")
        assert guest.ask(f"import {handle}") == "0"
        assert guest.ask("peek") == "4711"
        guest.ask("poke 815")
        assert owner.ask("peek") == "815"
        assert guest.used() == before  # charged once
        assert guest.ask("close") == "0"
        assert owner.ask("free") == "0"
        assert guest.ask(f"import {handle}") == "1"  # gone with the memory
        assert list((node.directory / "ipc").iterdir()) == []


def test_a_directory_that_cannot_be_used_is_named(checks: Path) -> None:
    library = {**os.environ, "LD_LIBRARY_PATH": str(library_directory()), "NVSHARE_SIM_DIR": "/no/such/place/node"}
    done = subprocess.run([checks / "simgpu_worker"], env=library, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "/no/such/place/node: No such file or directory" in done.stderr


def test_many_processes_start_at_once(make_node: MakeNode, checks: Path) -> None:
    node = make_node(gpus=1, memory="64Gi")
    started = [node.start(checks / "simgpu_worker") for _ in range(40)]
    for child in started:
        out, err = child.communicate("info\n", timeout=60)
        assert child.returncode == 0, err
        assert out.startswith("ready")
