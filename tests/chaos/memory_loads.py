"""A load of clients that lie about their memory. As loads.py."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from chaos.loads import NEEDS_ROOT, Load, Result, judge, serving, until
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from support.client import GIB, entry, registration
from support.daemon import Daemon
from support.waiting import wait_until

LIAR_UID, LIAR_COUNT = 61000, 50
LARGEST_PART = 0.25
LIARS = """
import os, socket, sys
path, user, count, frames = sys.argv[1:]
os.chdir(os.path.dirname(path))  # as root: the directories above may be private
os.setgroups([])
os.setresuid(*[int(user)] * 3)
peers = [socket.socket(socket.AF_UNIX) for _ in range(int(count))]
for peer in peers:
    peer.connect(os.path.basename(path))
    peer.sendall(bytes.fromhex(frames))
    peer.recv(100)
print('there', flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _liars(daemon: Daemon) -> Iterator[None]:
    """Connections of another user, each of which states 2^50 bytes that cannot be moved."""
    frames = encode(registration(entry(0))) + encode(wire.MemUpdate(0, 1, 0, 1 << 50))
    command = [sys.executable, "-c", LIARS, daemon.socket, str(LIAR_UID), str(LIAR_COUNT), frames.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as liars:
        assert liars.stdin is not None
        assert liars.stdout is not None
        with liars.stdin:
            assert liars.stdout.readline() == b"there\n"
            yield


def _overstating(daemon: Daemon) -> int:
    return sum(client["unswappable_bytes"] > 0 for client in daemon.status()["gpus"][0]["clients"])


def overstated_memory(place: Path, seconds: float) -> Result:
    """12: 50 idle connections of another user that state 2^50 bytes each, and eight clients that fit together beside
    the quarter of the card that this may count for. They are also told that they may use the rest."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    with serving(place) as daemon, contextlib.ExitStack() as stack:
        honest = [stack.enter_context(daemon.client().register()) for _ in range(8)]
        stack.enter_context(_liars(daemon))
        wait_until(lambda: _overstating(daemon) == LIAR_COUNT, "the liars are there")
        card = daemon.status()["gpus"][0]
        counted = card["unswappable_memory_bytes"] / card["total_memory"]
        told = f"{LIAR_COUNT} liars count as {100 * counted:.0f} % of the card"
        if counted > LARGEST_PART:
            return judge(told, lies_count_as_a_quarter=False)  # and the clients below would not get their locks
        together = 0
        for _ in until(min(seconds, 2)):
            locks = [client.take_lock(GIB) for client in honest]
            for client, lock in zip(honest, locks, strict=True):
                client.release(lock)
            together += 1
        return judge(f"{told}; {together} times all eight ran", all_run_side_by_side=together > 0)


LOADS: dict[str, tuple[str, Load]] = {"12": ("overstated memory", overstated_memory)}
