"""The sum of the clients' GPU time beside NVML's utilisation: a real scheduler, real programs, the simulated GPU."""

import time
from pathlib import Path
from typing import Any

import pytest

from libnvshare.programs import CHECKS, GIB, Program
from libnvshare.test_gpu_time import Timed
from support.real_time import hurry
from support.waiting import wait_until

SECONDS = 16
MEASURED_S = 13.5
"""Both figures are means of the last 10 s, and NVML is asked every 2 s."""
WITHIN = 6
"""In percent of the time: NVML sees every second one of the last seconds."""


def figures(machine: Timed, gpu: int = 0) -> tuple[float, float] | None:
    """NVML's and the clients', in percent."""
    found: dict[str, Any] = machine.daemon.status()["gpus"][gpu]
    used, accounted = found["utilization_percent"], found["accounted_percent"]
    return None if used is None else (float(used), float(accounted))


def measured(machine: Timed, *programs: Program, gpus: int = 1) -> list[tuple[float, float]]:
    """The figures of each GPU when the programs have worked for some time."""
    time.sleep(MEASURED_S)  # what is measured is this time
    found = [figures(machine, gpu) for gpu in range(gpus)]
    for program in programs:
        assert program.answer(60)[0] == "0"
    assert None not in found
    print(found)
    return [pair for pair in found if pair is not None]


ALONE = {"always": ("5000 20 0 0", 100), "half": ("20000 5 100000 0", 50), "a tenth": ("10000 2 180000 0", 10)}


def test_what_clients_account_for_is_what_nvml_says(tmp_path: Path) -> None:
    with Timed(tmp_path, gpus=len(ALONE), has_nvml=True) as machine:
        programs = [machine.pulsing(gpu=gpu) for gpu in range(len(ALONE))]
        for program, (how, _) in zip(programs, ALONE.values(), strict=True):
            program.say(f"pulse {SECONDS} {how}")
        for (used, accounted), (_, wanted) in zip(
            measured(machine, *programs, gpus=len(ALONE)), ALONE.values(), strict=True
        ):
            assert used == pytest.approx(wanted, abs=WITHIN)
            assert accounted == pytest.approx(used, abs=WITHIN)


def test_programs_side_by_side_account_for_all_of_it_together(tmp_path: Path) -> None:
    with Timed(tmp_path, has_nvml=True) as machine:
        programs = [machine.pulsing() for _ in range(2)]
        for program in programs:
            program.say(f"pulse {SECONDS} 5000 20 0 0")
        [(used, accounted)] = measured(machine, *programs)
        assert used == pytest.approx(100, abs=WITHIN)
        assert accounted == pytest.approx(used, abs=WITHIN)


def test_work_of_a_program_without_the_library_is_what_nvml_has_more(tmp_path: Path) -> None:
    with Timed(tmp_path, has_nvml=True) as machine:
        client = machine.pulsing()
        stranger = machine.start(CHECKS / "lib_pulse", LD_PRELOAD="", CUDA_VISIBLE_DEVICES="0")
        assert stranger.answer() == ["ready"]
        stranger.do(f"alloc {GIB}")
        hurry(stranger.process.pid)
        client.say(f"pulse {SECONDS} 10000 2 180000 0")
        stranger.say(f"pulse {SECONDS} 20000 5 100000 0")
        [(used, accounted)] = measured(machine, client, stranger)
        assert accounted < 25
        assert used - accounted > 25
        [gpu] = machine.daemon.status()["gpus"]
        assert gpu["foreign_pids"] == (stranger.process.pid,)


def test_in_mig_mode_there_is_no_utilisation(tmp_path: Path) -> None:
    with Timed(tmp_path, mig=True, has_nvml=True) as machine:
        program = machine.pulsing()
        program.say("pulse 5 5000 20 0 0")
        wait_until(lambda: machine.daemon.status()["gpus"][0]["busy_percent"] > 50, "the program is counted")
        assert program.answer(60)[0] == "0"
        assert figures(machine) is None
