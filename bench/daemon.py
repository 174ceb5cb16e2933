"""What the daemon itself costs: memory and CPU with 0 to 1,000 clients, how fast a storm of clients is accepted, and
how long a changed limit takes to arrive.

Clients here are plain sockets of one process; they register one GPU each and then stay. `idle_cpu_percent` is of one
core, over a second in which nobody says anything: the floor is 0."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench.scheduler import scheduler
from nvshare import admin
from nvshare.cli import operator_client
from nvshare.wire import messages as wire
from nvshare.wire.codec import ENTRY_LAYOUT, Decoder, encode

CLIENTS = (0, 10, 100, 1000)
LIMIT_CHANGES = 50
GIB = 1 << 30
HERTZ = os.sysconf("SC_CLK_TCK")


class BenchClient:
    """One registered client."""

    def __init__(self, path: Path, run: bytes, *, gpu: int = 1, own_limit: int = 0) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(30)
        self._connect(path)
        self._decoder = Decoder(wire.FROM_SCHEDULER)
        self._heard: list[wire.Message] = []
        self.socket.sendall(self.registration(run, gpu=gpu, own_limit=own_limit))

    @staticmethod
    def registration(run: bytes, *, gpu: int = 1, own_limit: int = 0) -> bytes:
        """The frame of a client with one idle GPU."""
        entry = wire.GpuEntry(
            uuid=bytes(15) + bytes([gpu]),
            kind=wire.GpuKind.GPU,
            state=wire.ClaimState.IDLE,
            contexts=1,
            size=16 * GIB,
            lock=0,
            swappable=GIB,
            unswappable=0,
            limit=0,
            budget=wire.UNLIMITED,
        )
        return encode(
            wire.Register(
                gpu=0,
                version=wire.PROTOCOL_VERSION,
                priority=0,
                own_limit=own_limit,
                run=run,
                name=b"bench",
                weight=0,
                entry_count=1,
                entry_size=ENTRY_LAYOUT.size,
                entries=(entry,),
            )
        )

    def _connect(self, path: Path) -> None:
        """Again while the queue of the listening socket is full, as libnvshare does."""
        while True:
            try:
                self.socket.connect(str(path))
                return
            except BlockingIOError:
                time.sleep(0.001)

    def hear(self, kind: type[wire.Message]) -> wire.Message:
        while True:
            for message in self._heard:
                if isinstance(message, kind):
                    self._heard.remove(message)
                    return message
            self._heard.extend(self._decoder.feed(self.socket.recv(1 << 16)))


def rows() -> list[dict[str, Any]]:
    return [row for clients in CLIENTS for row in _measure(clients)]


def _measure(clients: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        daemon = stack.enter_context(scheduler(Path(name), "--max-clients-per-group", "2000"))
        began = time.monotonic()
        peers = [BenchClient(daemon.socket, b"benchmark-run-%02d" % (index % 100)) for index in range(clients)]
        for peer in peers:
            stack.callback(peer.socket.close)
            peer.hear(wire.SchedOn)
        attached = time.monotonic() - began
        cpu = _cpu_seconds(daemon.pid)
        time.sleep(1)
        idle = _cpu_seconds(daemon.pid) - cpu
        row = {"bench": "daemon", "clients": clients, "memory_mib": _memory_mib(daemon.pid)}
        found = [row | {"idle_cpu_percent": round(100 * idle, 1)}]
        if clients:
            found.append({"bench": "attach storm", "clients": clients, "seconds": round(attached, 3)})
            found.append(
                {"bench": "limit latency", "clients": clients, **_limit_latency(daemon.operator_socket, peers[0])}
            )
        return found


def _limit_latency(control: Path, peer: BenchClient) -> dict[str, float]:
    """From the operator's word until the client has heard it, in milliseconds."""
    status = operator_client.ask(str(control), admin.GetStatus())
    assert isinstance(status, admin.Status)
    group = status.node.clients[0].group
    times = []
    for change in range(LIMIT_CHANGES):
        began = time.monotonic()
        operator_client.ask(str(control), admin.SetLimit(target=group, limit=(2 + change % 2) * GIB))
        peer.hear(wire.UpdateLimit)
        times.append((time.monotonic() - began) * 1000)
    times.sort()
    return {"p50_ms": round(median(times), 2), "worst_ms": round(times[-1], 2)}


def _memory_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return round(int(text.split("VmRSS:")[1].split()[0]) / 1024, 1)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


if __name__ == "__main__":
    for row in rows():
        print(row)
