"""Loads of many users, a full disk, and programs that cover descriptors. As loads.py."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.loads import FAST, MAX_WAIT_S, NEEDS_ROOT, Load, Result, Victim, judge, serving, until
from libnvshare.machine import Machine
from nvshare.wire.codec import encode
from support.client import GIB, MIB, entry, registration
from support.daemon import Daemon
from support.waiting import wait_until

USERS = range(60_000, 60_008)
GPUS_EACH = 64
"""The most that one process may name. An account may name 128, and all together 512."""
LIAR = """
import os, socket, sys
os.setgroups([])
os.setresuid(*[int(sys.argv[2])] * 3)
peers = []
for start in sys.argv[3:]:
    peers.append(socket.socket(socket.AF_UNIX))
    peers[-1].connect(sys.argv[1])
    peers[-1].sendall(bytes.fromhex(start))
    peers[-1].recv(100)
print('there', flush=True)
sys.stdin.read()
"""
FULL_DISK = 'mount -t tmpfs -o size=4k,mode=700 none {0} && head -c 4096 /dev/zero > {0}/full; exec "$0" "$@"'
CROWD, SETTLED, AFTER = 100, 50, 30
"""How many clients come at a time, how many crowds until what the scheduler keeps of past clients is full, and how many
come after that at least."""


@contextlib.contextmanager
def _liars(daemon: Daemon) -> Iterator[int]:
    """Processes of several users, each of which names more GPUs than one account may; how many."""
    with contextlib.ExitStack() as stack:
        for user in USERS:
            starts = [GPUS_EACH * (100 * (user - USERS[0] + 1) + number) for number in range(3)]
            frames = [encode(registration(*[entry(start + i) for i in range(GPUS_EACH)])).hex() for start in starts]
            command = [sys.executable, "-c", LIAR, daemon.socket, str(user), *frames]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            liar = stack.enter_context(subprocess.Popen(command, **pipes))  # type: ignore[call-overload]
            stack.callback(liar.stdin.close)
            assert liar.stdout.readline() == b"there\n"
        yield len(USERS)


def invented_gpus(place: Path, seconds: float) -> Result:
    """13: without NVML, users who name as many GPUs as they may. A newcomer still gets the locks of its own."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    place.parent.chmod(0o755)
    waits: list[float] = []
    with serving(place, *FAST, "--log-level=error") as daemon, _liars(daemon) as users:
        invented = len(daemon.status()["gpus"])
        for _ in until(seconds):
            began = time.monotonic()
            with daemon.client().register(*[entry(number) for number in range(16)]) as honest:
                honest.take_lock(gpu=15)
            waits.append(time.monotonic() - began)
    measured = f"{users} users named {invented} GPUs; {len(waits)} newcomers, longest wait {1000 * max(waits):.0f} ms"
    return judge(measured, newcomers_are_served=max(waits) < MAX_WAIT_S, gpus_are_bounded=invented <= 640)


def full_disk(place: Path, seconds: float) -> Result:
    """13: the operator's directory, with journal, epoch and limits, is on a disk that is full from the first start."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    starts = turns = 0
    directory = place / "operator"
    directory.mkdir(parents=True)
    wrapper = ("unshare", "--mount", "bash", "-c", FULL_DISK.format(directory))
    has_traceback = False
    for _ in until(seconds):
        with Daemon(place, "--journal-file", str(directory / "journal"), wrapper=wrapper) as daemon:
            with Victim(daemon) as victim:
                time.sleep(min(0.5, seconds))
            daemon.assert_alive()
            starts, turns = starts + 1, turns + len(victim.waits)
            has_traceback = has_traceback or "Traceback" in daemon.log.text
    measured = f"{starts} starts, {turns} turns of a client"
    return judge(measured, clients_are_served=turns >= starts, there_is_no_traceback=not has_traceback)


def covered_descriptors(place: Path, seconds: float) -> Result:
    """13: a program that puts a socket of its own over every descriptor, again and again (dup2)."""
    place.mkdir()
    times = heard = failed = 0
    with Machine(place, *FAST) as machine:
        other = machine.client(GIB)
        program = machine.client(MIB)
        for _ in until(seconds):
            times += 1
            program.do("cover 3 1100")
            heard += program.do("overheard") != ["0"]
            program.do("closeall")
            failed += program.ask("spin 1 1", timeout=60)[0] != "0"
            failed += other.ask("spin 1 1", timeout=60)[0] != "0"
        machine.daemon.assert_alive()
    measured = f"{times} times, {failed} calls failed"
    return judge(measured, its_socket_hears_nothing=not heard, programs_go_on=not failed)


def many_connections(place: Path, seconds: float) -> Result:
    """17: clients that come, ask for a lock and go, some in the middle of a frame. Nothing of them is left."""
    sizes: list[int] = []
    with serving(place, *FAST, "--log-level=error", "--max-clients-per-group=1000") as daemon:
        before = daemon.descriptors()
        end = time.monotonic() + seconds
        while len(sizes) < SETTLED + AFTER or time.monotonic() < end:
            clients = [daemon.client().register(entry(number % 16)) for number in range(CROWD)]
            for number, client in enumerate(clients):
                client.request(GIB)
                client.send_bytes(b"\0" * (number % 4))
                client.close()
            wait_until(lambda: not daemon.status()["gpus"], "all have left")
            wait_until(lambda: daemon.descriptors() <= before, f"{before} descriptors are open, as before")
            sizes.append(daemon.memory_bytes())
    growth = sizes[-1] - sizes[SETTLED]
    measured = f"{len(sizes) * CROWD} clients: memory {growth / MIB:+.1f} MiB, {before} descriptors before and after"
    return judge(measured, memory_is_flat=growth < 2 * MIB)


LOADS: dict[str, tuple[str, Load]] = {
    "17": ("many connections", many_connections),
    "13b": ("invented GPUs", invented_gpus),
    "13c": ("a full disk", full_disk),
    "13d": ("covered descriptors", covered_descriptors),
}
