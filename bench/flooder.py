"""The flooding user of floods.py: a process that sends as much as it can until it is killed.

python -m bench.flooder SOCKET KIND CLIENTS HTTP_PORT
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.daemon import GIB, BenchClient
from nvshare import admin
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode

NOBODY = 65534
RUN = b"flood" + bytes(11)
FRAMES = 200
READERS = 16
VICTIMS_GPU = 7
STOPPED_S = 0.1
BIG = 12 * GIB
"""More than half of the card."""


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def flooding() -> None:
    print("flooding", flush=True)


def send_for_ever(
    path: Path,
    clients: int,
    frames: list[bytes],
    *,
    own_limit: int = 0,
    piece: int | None = None,
    has_groups: bool = False,
) -> None:
    """Registered clients, all of which send these frames again and again and read what they are sent; with `piece`,
    so many bytes at a time, and none before each. `has_groups`: each is in a run of its own, at the victim's GPU."""
    words = b"".join(frames)
    poll = select.poll()
    sockets: dict[int, socket.socket] = {}
    rest: dict[int, bytes] = {}
    for number in range(clients):
        run, gpu = (number.to_bytes(16, "big"), VICTIMS_GPU) if has_groups else (RUN, 1)
        peer = BenchClient(path, run, gpu=gpu, own_limit=own_limit)
        peer.hear(wire.SchedOn)
        peer.socket.setblocking(False)
        sockets[peer.socket.fileno()] = peer.socket
        rest[peer.socket.fileno()] = words
        poll.register(peer.socket, select.POLLIN | select.POLLOUT)
    flooding()
    while True:
        for descriptor, events in poll.poll():
            one = sockets[descriptor]
            try:
                if events & select.POLLIN:
                    one.recv(1 << 16)
                if events & select.POLLOUT:
                    if piece:
                        one.send(b"")
                    rest[descriptor] = rest[descriptor][one.send(rest[descriptor][:piece]) :] or words
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(descriptor)


def stopped_again_and_again() -> None:
    """This process is stopped (SIGSTOP) half of the time from now on, by a child that ends with it."""
    flooder = os.pidfd_open(os.getpid())
    if os.fork():
        os.close(flooder)
        return
    with contextlib.suppress(ProcessLookupError):
        while True:
            signal.pidfd_send_signal(flooder, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            signal.pidfd_send_signal(flooder, signal.SIGCONT)
            time.sleep(STOPPED_S)
    os._exit(0)


def send_and_be_stopped(path: Path, clients: int, frames: list[bytes]) -> None:
    """Frames in pieces, so that most connections are in the middle of one when the process is stopped."""
    stopped_again_and_again()
    send_for_ever(path, clients, frames, piece=7)


def connect_for_ever(path: Path, words: bytes, *, hears: bool) -> None:
    """New connections, each of which says something and goes."""
    flooding()
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer, contextlib.suppress(OSError):
            peer.connect(str(path))
            peer.sendall(words)
            if hears:
                peer.recv(1)


def stay_for_ever(path: Path, words: bytes, connections: int) -> None:
    """Connections that say something and then nothing, and read nothing. Those that are closed are made again."""
    kept: list[socket.socket] = []
    while True:
        for _ in range(connections - len(kept)):
            with contextlib.suppress(OSError):
                peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                peer.connect(str(path))
                peer.setblocking(False)
                kept.append(peer)
                peer.send(words)
        if len(kept) == connections:
            flooding()
        kept = [peer for peer in kept if not _is_closed(peer)]


def _is_closed(peer: socket.socket) -> bool:
    events = select.POLLRDHUP
    poll = select.poll()
    poll.register(peer, events)
    return bool(poll.poll(0))


def lingering_socket(seconds: int) -> tuple[socket.socket, socket.socket]:
    """A connection whose close waits for so long, because the other end does not read; and that other end."""
    one = socket.socket()
    with socket.create_server(("127.0.0.1", 0)) as server:
        one.connect(server.getsockname())
        other, _ = server.accept()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            one.send(bytes(1 << 16))
    one.setblocking(True)
    return one, other


def pass_descriptor(peer: socket.socket, passed: socket.socket, byte: bytes = b"\0") -> None:
    """A peer that receives the byte without room for the descriptor closes the descriptor. If this lingers and no other
    process has it, the close waits."""
    peer.sendmsg([byte], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", passed.fileno()))])


def pass_for_ever(path: Path) -> None:
    others: list[socket.socket] = []
    flooding()
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer, contextlib.suppress(OSError):
            peer.connect(str(path))
            passed, other = lingering_socket(1)
            others = [*others[-100:], other]
            with passed:
                pass_descriptor(peer, passed)


def take_turns_for_ever(path: Path, clients: int) -> None:
    """Clients with memory on the GPU. Two of them take turns with most of it, and whenever one waits, the scheduler
    measures what the host can take of all."""
    peers = [BenchClient(path, RUN) for _ in range(clients)]
    for peer in peers:
        peer.hear(wire.SchedOn)
        _give_back(peer, _taken(peer, 4096))
    flooding()
    one, other = peers[:2]
    while True:
        lock = _taken(one, BIG)
        other.socket.sendall(encode(wire.ReqLock(0, 1, BIG, 0)))
        _give_back(one, lock)
        one, other = other, one
        _give_back(one, one.hear(wire.LockOk))


def _taken(peer: BenchClient, memory: int) -> wire.Message:
    peer.socket.sendall(encode(wire.ReqLock(0, 1, memory, 0)))
    return peer.hear(wire.LockOk)


def _give_back(peer: BenchClient, lock: wire.Message) -> None:
    assert isinstance(lock, wire.LockOk)
    peer.socket.sendall(encode(wire.LockReleased(0, False, lock.lock)))


def scrape_for_ever(port: int, readers: int) -> None:
    def read() -> None:
        while True:
            with socket.socket() as peer, contextlib.suppress(OSError):
                peer.connect(("127.0.0.1", port))
                peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while peer.recv(1 << 16):
                    pass

    for _ in range(readers):
        threading.Thread(target=read, daemon=True).start()
    flooding()
    threading.Event().wait()


def read_for_ever(path: Path, clients: int) -> None:
    """Clients that do nothing, and readers of the status, which any user may read."""
    peers = [BenchClient(path, RUN) for _ in range(clients)]
    for one in peers:
        one.hear(wire.SchedOn)

    def read() -> None:
        while True:
            with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(OSError):
                peer.connect(str(path.parent / "r" / "r.sock"))
                while True:
                    peer.sendall(admin.encode(admin.GetStatus()))
                    while not peer.recv(1 << 16).endswith(b"\n"):
                        pass

    for _ in range(READERS):
        threading.Thread(target=read, daemon=True).start()
    flooding()
    threading.Event().wait()


def main() -> None:
    path, kind, clients, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    become_nobody()
    registration = BenchClient.registration(RUN)
    updates = [encode(wire.MemUpdate(0, 1, number * GIB // FRAMES, 0)) for number in range(FRAMES)]
    questions = [encode(wire.BudgetAsk(0, number, GIB)) for number in range(1, FRAMES)]
    core_limits = [encode(wire.ReqLock(0, 0, 0, 0)), encode(wire.CoreLimit(0, 50)), encode(wire.CoreLimit(0, 40))]
    kinds: dict[str, Callable[[], None]] = {
        "memory updates": lambda: send_for_ever(path, clients, updates),
        "lock requests": lambda: send_for_ever(path, clients, [encode(wire.ReqLock(0, 1, GIB, 0))]),
        "idle and busy": lambda: send_for_ever(path, clients, [encode(wire.Idle(0)), encode(wire.Busy(0))]),
        "budget questions": lambda: send_for_ever(path, clients, questions, own_limit=GIB),
        "connections": lambda: connect_for_ever(path, b"", hears=False),
        "registrations": lambda: connect_for_ever(path, registration, hears=True),
        "broken frames": lambda: connect_for_ever(path, b"\0" * 64, hears=False),
        "pings": lambda: send_for_ever(path, clients, [encode(wire.Ping(0))] * FRAMES),
        "unread answers": lambda: stay_for_ever(path, registration + encode(wire.Ping(0)) * 30_000, clients),
        "single bytes": lambda: send_for_ever(path, clients, updates, piece=1),
        "stopped senders": lambda: send_and_be_stopped(path, clients, updates),
        "half frames": lambda: stay_for_ever(path, registration + registration[:9], clients),
        "descriptors": lambda: pass_for_ever(path),
        "scrapes": lambda: scrape_for_ever(port, clients),
        "core limits of many groups": lambda: send_for_ever(path, clients, core_limits, has_groups=True),
        "status reads": lambda: read_for_ever(path, clients),
        "host memory": lambda: take_turns_for_ever(path, clients),
    }
    kinds[kind]()


if __name__ == "__main__":
    main()
