"""A load of users that fill the scheduler's memory as far as they may. As loads.py."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from chaos.loads import FAST, MAX_WAIT_S, NEEDS_ROOT, Load, Result, judge, serving
from chaos.viewer_loads import BEGINNING, STATUS, read_until, request
from nvshare.scheduler.clients.sending import MAX_UNREAD, SEND_BUFFER
from nvshare.scheduler.http.server import MAX_PAGES, MAX_RESERVED, MAX_STREAMS
from nvshare.scheduler.sources.cgroup_memory import memory_cgroup, read_cgroup
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from support.client import MIB, entry, registration
from support.daemon import Daemon

USERS = range(62_000, 62_003)
CONNECTIONS, CONNECTIONS_EACH, GPUS_EACH = 320, 128, 64
NEWCOMER_EVERY_S = 0.05
MUTE = 16
"""Connections of each user that do not read: filling all of them takes long."""
PINGS = 100
ASKS_AT_ONCE, ASK_ROUNDS = 25, 16
"""12,800 bytes of answers after those to the PINGs."""
SEATS = 16_384
SEAT_BYTES, CLIENT_BYTES = 10_000, 30_000
"""A third more than is documented of a pair of a client and a GPU; of a client beside its pairs and unread answers."""
KERNEL_BYTES = 10_000
"""Of the kernel, for a client beside its unread answers."""
VIEWERS = {"/metrics": MAX_RESERVED, "/api/v1/status": MAX_PAGES, "/api/v1/events": MAX_STREAMS}
VIEWER_BYTES, SCRAPE_SEAT_BYTES, SCRAPE_CLIENT_BYTES = 1_500_000, 150, 500
"""As documented of an answer that is being sent, of a scrape for each pair and client besides, and a third more."""
RUN = b"R" * 16
FILLER = """
import fcntl, os, socket, sys, termios, time
path, user, count, run, many, one, mute, ping, pings, asks, rounds = sys.argv[1:]
os.setgroups([])
os.setresuid(*[int(user)] * 3)
peers = []

def register(start):
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.connect(path)
        peer.sendall(bytes.fromhex(start).replace(bytes.fromhex(run), os.urandom(16)))
        heard = peer.recv(1)
    except OSError:
        heard = b''
    if heard:
        peers.append(peer)
    return heard

for start in (many, one):
    while len(peers) < int(count) and register(start):
        pass
for question in [bytes.fromhex(ping)] * int(pings) + [bytes.fromhex(asks)] * int(rounds):
    for peer in peers[-int(mute):]:
        peer.sendall(question)
    for peer in peers[-int(mute):]:
        while any(fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4))):
            time.sleep(0.001)
print(len(peers), flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _kernel_memory(pid: int) -> Iterator[Callable[[], int | None]]:
    """Puts the process into a memory cgroup of its own. Gives what it uses of the kernel's memory since then; None if
    this machine does not count it."""
    is_v2, path = memory_cgroup(Path("/proc/self/cgroup").read_text()) or (True, "")
    above = Path("/sys/fs/cgroup", "" if is_v2 else "memory", path.strip("/"))
    own = above / f"nvshare-load-{os.getpid()}"

    def used() -> int | None:
        found = read_cgroup(own, is_v2)
        return found.kernel if found else None

    try:
        own.mkdir()
        (own / "cgroup.procs").write_text(str(pid))
    except OSError:
        yield lambda: None
    else:
        yield used
    finally:
        with contextlib.suppress(OSError):
            (above / "cgroup.procs").write_text(str(pid))
            own.rmdir()


@contextlib.contextmanager
def _fillers(daemon: Daemon) -> Iterator[list[Future[bytes]]]:
    """All users fill their part at once, and keep it. How many clients each has, when it has them."""
    starts = [encode(registration(*map(entry, range(gpus)), run=RUN)).hex() for gpus in (GPUS_EACH, 1)]
    asks = encode(wire.BudgetAsk(0, 1, 0)) * ASKS_AT_ONCE
    questions = [str(MUTE), encode(wire.Ping(0)).hex(), str(PINGS), asks.hex(), str(ASK_ROUNDS)]
    with contextlib.ExitStack() as stack:
        counts = []
        thread = stack.enter_context(ThreadPoolExecutor())
        for user in USERS:
            words = [daemon.socket, str(user), str(CONNECTIONS_EACH), RUN.hex(), *starts, *questions]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            filler = stack.enter_context(subprocess.Popen([sys.executable, "-c", FILLER, *words], **pipes))  # type: ignore[call-overload]
            stack.callback(filler.stdin.close)
            counts.append(thread.submit(filler.stdout.readline))
        yield counts


def _newcomer(daemon: Daemon) -> float:
    """How long a client of another user waits for the lock of its GPU."""
    began = time.monotonic()
    with daemon.client().register(*[entry(100 + number) for number in range(8)]) as honest:
        honest.take_lock(gpu=7)
    return time.monotonic() - began


def _memory_of_viewers(daemon: Daemon) -> int:
    """By how much the scheduler's memory grows for as many viewers as it serves at once, each of another host, that do
    not go on reading in the middle of the state."""
    before, most = daemon.memory_bytes(), 0
    with contextlib.ExitStack() as stack:
        for path, count in VIEWERS.items():
            for number in range(count):
                viewer = stack.enter_context(request(daemon, path, host=f"127.0.0.{number + 2}"))
                if path == "/api/v1/events":
                    read_until(viewer, STATUS)
                else:
                    viewer.recv(BEGINNING)
                most = max(most, daemon.memory_bytes())
    return most - before


def full_memory(place: Path, seconds: float) -> Result:
    """13: users who name as many GPUs as they may, each client with a run ID of its own, and do not read; then viewers
    that do not read either."""
    if os.geteuid() != 0:
        return NEEDS_ROOT
    place.parent.chmod(0o755)
    limits = f"--max-clients={CONNECTIONS}", f"--max-clients-per-group={CONNECTIONS_EACH}"
    with serving(place, *FAST, *limits) as daemon, _kernel_memory(daemon.pid) as kernel:
        before, kernel_before = daemon.memory_bytes(), kernel()
        end = time.monotonic() + seconds
        with _fillers(daemon) as counts:
            waits = [_newcomer(daemon)]
            while wait(counts, NEWCOMER_EVERY_S).not_done or time.monotonic() < end:
                waits.append(_newcomer(daemon))
            clients = sum(int(count.result()) for count in counts)
            grown, kernel_after = daemon.memory_bytes() - before, kernel()
            seats = sum(len(gpu["clients"]) for gpu in daemon.status()["gpus"])
            for_viewers = _memory_of_viewers(daemon)
    in_kernel = None if kernel_before is None or kernel_after is None else kernel_after - kernel_before
    mute = len(USERS) * MUTE
    measured = (
        f"{clients} clients, {seats} pairs: memory {grown / MIB:+.0f} MiB, of the kernel"
        f" {'not measured' if in_kernel is None else f'{in_kernel / MIB:+.1f} MiB'}, for viewers"
        f" {for_viewers / MIB:+.0f} MiB;"
        f" {len(waits)} newcomers, longest wait {1000 * max(waits):.0f} ms"
    )
    return judge(
        measured,
        pairs_are_bounded=seats <= SEATS,
        memory_is_bounded=grown < SEATS * SEAT_BYTES + clients * CLIENT_BYTES + mute * MAX_UNREAD,
        memory_of_the_kernel_is_bounded=(in_kernel or 0) < clients * KERNEL_BYTES + mute * 2 * SEND_BUFFER,
        memory_for_viewers_is_bounded=for_viewers < _most_for_viewers(seats, clients),
        newcomers_are_served=max(waits) < MAX_WAIT_S,
    )


def _most_for_viewers(seats: int, clients: int) -> int:
    scrape = seats * SCRAPE_SEAT_BYTES + clients * SCRAPE_CLIENT_BYTES
    return sum(VIEWERS.values()) * VIEWER_BYTES + VIEWERS["/metrics"] * scrape


LOADS: dict[str, tuple[str, Load]] = {"13e": ("full memory", full_memory)}
