"""2: processes of one run that start at the same moment, under a limit that holds all of them many times over."""

import time
from pathlib import Path

from chaos.loads import Result, judge, serving
from libnvshare.programs import CHECKS, GIB, MIB, NULL_DRIVER, Programs

ROUNDS, TOGETHER = 25, 4
WANTED = 10 * MIB
LIMIT = 4 * GIB


def start_together(place: Path, seconds: float) -> Result:
    return starts(place, ROUNDS)


def starts(place: Path, rounds: int) -> Result:
    """Each round is a run of its own."""
    refused, longest = 0, 0.0
    with serving(place, "--settle-seconds=0") as daemon:
        environment = {"LD_LIBRARY_PATH": str(NULL_DRIVER), "NVSHARE_SOCKET": daemon.socket}
        environment["NVSHARE_GPU_MEMORY_LIMIT"] = str(LIMIT)
        for number in range(rounds):
            with Programs(place, {**environment, "NVSHARE_RUN_ID": f"{number + 1:032x}"}) as programs:
                together = [programs.start(CHECKS / "lib_client", "dlsym") for _ in range(TOGETHER)]
                began = time.monotonic()
                for program in together:
                    program.say(f"init 0\nalloc {WANTED}")
                for program in together:
                    assert program.answer(timeout=60)[0] == "0"
                    refused += program.answer(timeout=60)[0] != "0"
                longest = max(longest, time.monotonic() - began)
    measured = (
        f"{rounds} runs of {TOGETHER} processes, {refused} allocations refused, longest start {1000 * longest:.0f} ms"
    )
    return judge(measured, all_succeed=not refused)
