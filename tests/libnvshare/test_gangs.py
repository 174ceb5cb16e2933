"""Programs on several simulated GPUs under the real scheduler: their locks are given and taken together.

The scheduler's journal judges: which client held which GPU from when to when."""

from pathlib import Path

from libnvshare.held_turns import share_of_two, turns_of
from libnvshare.machine import Machine
from libnvshare.programs import GIB

FIXED_1S = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


def test_a_process_on_two_gpus_gets_its_share_of_both_beside_one_on_each(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Machine(tmp_path, *FIXED_1S, f"--journal-file={journal}", gpus=2) as machine:
        others = [machine.client(10 * GIB, gpu=gpu) for gpu in range(2)]
        two = machine.client(10 * GIB)
        two.do("init 1")
        two.do(f"alloc {10 * GIB}")
        # Different quanta: the ends of turns on the two GPUs do not coincide by chance.
        machine.daemon.ctl("set-tq", "2", "--gpu", machine.daemon.status()["gpus"][1]["uuid"])
        for other in others:
            other.say("loop 500000 14000 4")
        two.say("alternate 500000 14000")
        for program in (two, *others):
            assert program.answer(60)[0] == "0"
    held = turns_of(journal)
    share = share_of_two(held)
    assert share > 0.4, (share, held)  # Half of the time is its share; without gangs it is nearly nothing.
