"""The scheduler's time is charged to the account of a connection before more of it is spent."""

import asyncio
import contextlib
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from nvshare.core.model import Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients.connection import ClientConnection
from nvshare.scheduler.clients.connection_admission import CHARGE_FACTOR, CREDIT_NS, LOOP_NS, ConnectionAdmission
from nvshare.scheduler.clients.identity import Peer, peer_of
from nvshare.scheduler.engine import Engine
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from support.client import entry, registration


@contextlib.asynccontextmanager
async def serving(path: str) -> AsyncIterator[tuple[Engine, ConnectionAdmission]]:
    """A server of client connections in this process, while a second user is there."""
    engine = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop())
    admission = ConnectionAdmission(max_connections=1000, max_per_account=1000)
    admission.account_of(Peer(1, 1234, -1, None, None, "somebody who is kept waiting"))
    server = await asyncio.get_running_loop().create_unix_server(
        lambda: ClientConnection(engine, admission, grace_ms=1, timeout_s=9), path
    )
    yield engine, admission
    server.close()


def test_connecting_is_charged_to_the_account(tmp_path: Path) -> None:
    async def main(path: str) -> int:
        async with serving(path) as (_, admission):
            began = time.monotonic_ns()
            with socket.socket(socket.AF_UNIX) as silent:
                silent.connect(path)
                async with asyncio.timeout(60):
                    while admission.connections < 1:
                        await asyncio.sleep(0)
                return admission.account_of(_this_process()).delay_ns(began - CREDIT_NS)

    assert asyncio.run(main(str(tmp_path / "s"))) > 0


def test_time_that_was_spent_for_several_clients_is_charged_in_parts() -> None:
    admission = ConnectionAdmission(max_connections=1000, max_per_account=1000)
    crowd = admission.account_of(Peer(1, 1234, -1, None, None, "x"))
    first, second = admission.new_client_id(crowd), admission.new_client_id(crowd)
    now = time.monotonic_ns()
    spent = 10 * CREDIT_NS
    admission.charge_clients(now, now + spent, Counter({first: 8}))
    assert crowd.delay_ns(now) == 0, "nobody else is there"
    other = admission.account_of(Peer(2, 1235, -1, None, None, "y"))
    gone = admission.new_client_id(other)
    third = admission.new_client_id(other)
    admission.free_client_id(gone)
    admission.charge_clients(now, now + spent, Counter({first: 4, second: 2, third: 1, gone: 1}))
    assert crowd.delay_ns(now - CREDIT_NS) == CHARGE_FACTOR * spent * 6 // 8
    assert other.delay_ns(now - CREDIT_NS) == CHARGE_FACTOR * spent // 8


def test_many_connections_of_one_account_get_no_more_of_a_turn_than_one(tmp_path: Path) -> None:
    """Each message takes 5 ms here; all connections have one to be read in the same turn of the event loop."""
    turn, turns = 0, Counter[int]()

    def take_long(event: object) -> None:
        turns[turn] += 1
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            pass

    async def main(path: str) -> None:
        nonlocal turn
        async with serving(path) as (engine, _):
            clients = [socket.socket(socket.AF_UNIX) for _ in range(100)]
            for client in clients:
                client.connect(path)
                client.sendall(encode(registration(entry())))
            async with asyncio.timeout(60):
                while len(engine.node.clients) < len(clients):
                    await asyncio.sleep(0.001)
            engine.post = take_long  # type: ignore[assignment,method-assign]
            for client in clients:
                client.sendall(encode(wire.MemUpdate(0, 0, 0, 0)))
            async with asyncio.timeout(60):
                while turns.total() < len(clients):
                    await asyncio.sleep(0)
                    turn += 1
            for client in clients:
                client.close()
            del engine.post

    asyncio.run(main(str(tmp_path / "s")))
    assert max(turns.values()) <= 4  # half of the credit, and one


def test_a_read_that_has_to_wait_is_charged_too(tmp_path: Path) -> None:
    """An account that owes time sends a byte of a frame on each of many connections: with nothing to handle, reading
    them is all that they cost."""

    async def main(path: str) -> int:
        async with serving(path) as (_, admission):
            account = admission.account_of(_this_process())
            clients = [socket.socket(socket.AF_UNIX) for _ in range(100)]
            for client in clients:
                client.connect(path)
            async with asyncio.timeout(60):
                while admission.connections < len(clients):
                    await asyncio.sleep(0)
            now = time.monotonic_ns()
            account.charge(now, now + 10 * CREDIT_NS)
            before = account.delay_ns(now)
            for client in clients:
                client.sendall(b"x")
            async with asyncio.timeout(60):
                while account.waiting < len(clients):
                    await asyncio.sleep(0)
            owed = account.delay_ns(now) - before
            for client in clients:
                client.close()
            return owed

    assert asyncio.run(main(str(tmp_path / "s"))) >= 100 * CHARGE_FACTOR * LOOP_NS


def test_a_connection_that_has_ended_waits_no_longer(tmp_path: Path) -> None:
    """An account that owes time sends from many connections, and ends them before they are handled."""

    async def main(path: str) -> int:
        async with serving(path) as (_, admission):
            account = admission.account_of(_this_process())
            for _ in range(20):
                now = time.monotonic_ns()
                account.charge(now, now + 10**9)
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
                    client.sendall(encode(registration(entry())))
                    async with asyncio.timeout(60):
                        while not account.waiting:
                            await asyncio.sleep(0)
                async with asyncio.timeout(60):
                    while admission.connections:
                        await asyncio.sleep(0)
            return account.waiting

    assert asyncio.run(main(str(tmp_path / "s"))) == 0


def _this_process() -> Peer:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        peer = peer_of(one)
    os.close(peer.pidfd)
    return peer
