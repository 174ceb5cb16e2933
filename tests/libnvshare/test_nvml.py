"""What NVML shows to a process that has a limit and has not initialised CUDA: what its group may still get."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from libnvshare.machine import Machine
from libnvshare.programs import GIB, Programs
from support.waiting import wait_until

RUN: dict[str, Any] = {"NVSHARE_RUN_ID": "22" * 16, "NVSHARE_GPU_MEMORY_LIMIT": "4Gi"}
LOOK = """
import pynvml, sys
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
for _ in sys.stdin:
    memory = pynvml.nvmlDeviceGetMemoryInfo(card)
    print(memory.total >> 20, memory.free >> 20, memory.used >> 20, flush=True)
"""
FRESH_S = 1.0
"""An answer of the scheduler serves all questions of the next second."""
LONGEST_S = 0.5


def look(machine: Programs, **environment: str) -> list[int]:
    """Total, free and used in MiB, as a new process sees them."""
    program = machine.start(sys.executable, "-c", LOOK, **environment)
    return list(map(int, program.ask("")))


def test_the_second_process_of_a_run_sees_what_the_first_has_left(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        first = machine.client(GIB, **RUN)
        assert look(machine, **RUN) == [4096, 3072, 1024]
        first.do(f"alloc {2 * GIB}")
        assert look(machine, **RUN) == [4096, 1024, 3072]
        assert look(machine, **RUN | {"NVSHARE_RUN_ID": "33" * 16}) == [4096, 4096, 0]


def test_the_schedulers_limit_is_shown_and_nobody_stays_a_client(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.client(GIB, **RUN)
        machine.daemon.ctl("limit", f"{os.getuid()}-{RUN['NVSHARE_RUN_ID']}", "6Gi")
        assert look(machine, **RUN) == [6144, 5120, 1024]
        wait_until(lambda: len(machine.clients()) == 1, "only the program with a context is a client")


def test_a_program_that_polls_registers_once_in_a_second(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        first = machine.client(GIB, **RUN)
        looker = machine.start(sys.executable, "-c", LOOK, **RUN)
        looker.ask("")
        began = time.monotonic()
        for _ in range(100):
            looker.ask("")
        seconds = time.monotonic() - began
        registered = machine.daemon.log.count("Client registered")
        assert 2 <= registered <= 3 + seconds / FRESH_S
        first.do(f"alloc {GIB}")
        wait_until(lambda: looker.ask("") == ["4096", "2048", "2048"], "the new figure is shown")


def test_a_scheduler_that_hangs_costs_half_a_second_and_the_own_limit_is_shown(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.client(GIB, **RUN)
        looker = machine.start(sys.executable, "-c", LOOK, **RUN)
        os.kill(machine.daemon.process.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert looker.ask("") == ["4096", "4096", "0"]
            assert time.monotonic() - began >= LONGEST_S
            for _ in range(100):  # it is not asked again now: each would cost as much
                looker.ask("", timeout=LONGEST_S)
        finally:
            os.kill(machine.daemon.process.pid, signal.SIGCONT)


def test_without_a_limit_the_card_is_shown_and_nobody_is_asked(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        machine.client(GIB)
        total, free, used = look(machine)
        assert (total, free + used) == (16384, 16384)
        assert used >= 256  # the context of the other
        assert machine.daemon.log.count("Client registered") == 1
