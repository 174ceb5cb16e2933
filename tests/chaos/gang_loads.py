"""Loads of programs on several GPUs. As loads.py."""

import re
import time
from pathlib import Path
from random import Random

from chaos.loads import QUANTUM_S, Load, Result, judge, until
from libnvshare.held_turns import share_of_two, turns_of
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, Program

GPUS = 4
GRACE_S = 10
"""As shipped: a job releases its locks in many small steps, which take seconds on a busy machine."""
OPTIONS = ("--switch-time-mode=fixed", f"--switch-time-fixed={QUANTUM_S}", f"--grace-seconds={GRACE_S}")
MAX_WAIT_S = (2 * GPUS + 1) * (2 * QUANTUM_S + GRACE_S)
"""The bound of core.modes.mode with gangs, policy fcfs and mode fixed."""
LAST_JOB_S = 3
PATIENCE_S = 120
RUN_MS = 12_000
LEAST_SHARE = 0.4
"""80 % of the fair share of a program on two GPUs beside one on each, which is half of the time."""


def _job(machine: Machine, number: int) -> list[Program]:
    """Four processes of one run, whose kernels wait for each other until the first is told to end."""
    flags = machine.directory / f"flags-{number}"
    job = {"NVSHARE_RUN_ID": f"{number:032x}", "NVSHARE_GANG": "1"}
    words = [str(word) for word in (10 * GIB, 1, flags, GPUS)]
    return [machine.start(CHECKS / "lib_collective", *words, str(rank), "1", **job) for rank in range(GPUS)]


def _kill_one_of(members: list[Program], chance: Random) -> int:
    """And the others later. How many had ended by themselves."""
    time.sleep(chance.uniform(0.2, 2 * QUANTUM_S))
    ended = sum(member.process.poll() is not None for member in members)
    chance.choice(members).process.kill()
    time.sleep(chance.uniform(0, 2 * QUANTUM_S + GRACE_S))
    for member in members:
        member.process.kill()
        member.process.wait()
    return ended


def _revoked(machine: Machine) -> set[str]:
    return set(re.findall(r"Client (\S+) on \S+ did not give its lock back", machine.daemon.log.text))


def killed_members(place: Path, seconds: float) -> Result:
    """15: jobs of four processes beside a client on each GPU. A process of a job is killed, and some time later, as a
    launcher does, the others, whose kernels wait for it meanwhile. The last job is left alone."""
    place.mkdir()
    chance = Random(f"gang {seconds}")
    ended = 0
    with Machine(place, *OPTIONS, gpus=GPUS, trace=0) as machine:
        singles = [machine.client(10 * GIB, gpu=gpu) for gpu in range(GPUS)]
        healthy = {one["id"] for gpu in range(GPUS) for one in machine.clients(gpu)}
        for single in singles:
            single.say(f"loop 200000 {1000 * (seconds + LAST_JOB_S):.0f} 4")
        for killed in until(seconds):
            ended += _kill_one_of(_job(machine, killed + 1), chance)
        before = _revoked(machine)
        last = _job(machine, 0)
        time.sleep(LAST_JOB_S)
        last[0].say("end")
        ranks = [member.answer(PATIENCE_S) for member in last]
        ends = [single.answer(PATIENCE_S) for single in singles]
        machine.daemon.assert_alive()
        revoked = _revoked(machine)
    longest_s = max(float(pause) for _, _, pause in ends) / 1000
    rounds = [int(rank[0]) for rank in ranks]
    measured = (
        f"{killed + 1} jobs with a killed process, {len(before)} processes whose kernels waited for it were revoked;"
        f" longest pause of another client {longest_s:.1f} s; {min(rounds)} rounds of the last job"
    )
    return judge(
        measured,
        other_clients_go_on=longest_s <= MAX_WAIT_S and all(result == "0" for result, _, _ in ends),
        no_process_ends_by_itself=not ended,
        no_other_client_is_revoked=len(healthy) == GPUS and not revoked & healthy,
        the_last_job_is_not_revoked=revoked == before,
        the_last_job_works=min(rounds) > 0,
    )


def three_on_two(place: Path, chance: Random, run_ms: int = RUN_MS) -> tuple[float, list[int], int]:
    """One run: the share of the program on both GPUs, what each has done, and how many programs were no clients."""
    place.mkdir()
    journal = place / "journal"
    with Machine(place, *OPTIONS, f"--journal-file={journal}", gpus=2) as machine:
        kinds = [(0,), (1,), (0, 1)]
        chance.shuffle(kinds)
        running = {}
        for gpus in kinds:
            program = machine.client(10 * GIB, gpu=gpus[0])
            for gpu in gpus[1:]:
                program.do(f"init {gpu}")
                program.do(f"alloc {10 * GIB}")
            us = chance.randrange(50_000, 800_000)
            program.say(f"alternate {us} {run_ms}" if len(gpus) == 2 else f"loop {us} {run_ms} 4")
            running[gpus] = program
            time.sleep(chance.uniform(0, 1.5 * QUANTUM_S))
        pids = {client["pid"] for gpu in range(2) for client in machine.clients(gpu)}
        unshared = sum(program.process.pid not in pids for program in running.values())
        done = {gpus: int(program.answer(PATIENCE_S)[1]) for gpus, program in running.items()}
    return share_of_two(turns_of(journal)), [done[gpus] for gpus in sorted(done)], unshared


def three_on_two_gpus(place: Path, seconds: float) -> Result:
    """16: a program on two GPUs beside one on each, started one after the other at random times. In every run the first
    gets at least 80 % of its fair share, which is half of the time, and all three are clients."""
    place.mkdir()
    chance = Random(f"phases {seconds}")
    runs = [three_on_two(place / str(number), chance) for number in until(seconds)]
    lowest = min(share for share, _, _ in runs)
    least = min(min(done) for _, done, _ in runs)
    return judge(
        f"{len(runs)} runs; lowest share of the program on both GPUs {lowest:.2f} of the time, fewest rounds {least}",
        it_gets_80_percent_of_its_share=lowest >= LEAST_SHARE,
        all_work=least > 0,
        all_are_clients=not any(unshared for _, _, unshared in runs),
    )


LOADS: dict[str, tuple[str, Load]] = {
    "15": ("killed processes of a job", killed_members),
    "16": ("three programs on two GPUs", three_on_two_gpus),
}
