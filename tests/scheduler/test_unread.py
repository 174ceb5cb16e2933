"""What clients do not read takes a bounded part of the scheduler's memory, in the kernel and in its process."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios

from nvshare.scheduler.clients.sending import MAX_UNREAD, SEND_BUFFER, Sending
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from support.client import WireClient
from support.daemon import Daemon
from support.waiting import wait_until

PONG_BYTES = len(encode(wire.Pong(0)))
LEAST_BUFFER = 512
"""The kernel needs more than this for each write."""


def queued(peer: WireClient, request: int) -> int:
    """Bytes that this peer has not read (FIONREAD), or that the scheduler has not (TIOCOUTQ)."""
    return int(struct.unpack("i", fcntl.ioctl(peer.socket, request, bytes(4)))[0])


def ping(peers: list[WireClient], times: int) -> None:
    """PINGs that are read, and answered, one by one."""
    for _ in range(times):
        for peer in peers:
            peer.send(wire.Ping(0))
        for peer in peers:
            wait_until(lambda peer=peer: not queued(peer, termios.TIOCOUTQ), "it was read")  # type: ignore[misc]


def test_the_kernel_holds_few_unread_answers_and_a_client_that_reads_later_gets_all(daemon: Daemon) -> None:
    with daemon.client().register() as peer:
        peer.hear_all()
        ping([peer], 100)
        assert 0 < queued(peer, termios.FIONREAD) / PONG_BYTES < 2 * SEND_BUFFER / LEAST_BUFFER
        assert peer.hear_all() == [wire.Pong(0)] * 100


def test_unread_answers_come_in_order_when_the_client_reads_again(daemon: Daemon) -> None:
    with daemon.client().register() as peer:
        peer.hear_all()
        for _ in range(3):
            asks = range(1000, 1000 + MAX_UNREAD // 64)
            for ask in asks:
                peer.send(wire.BudgetAsk(0, ask, 0))
            wait_until(lambda: not queued(peer, termios.TIOCOUTQ), "all was read")
            heard = [message for message in peer.hear_all() if isinstance(message, wire.Budget)]
            assert [message.ask for message in heard] == list(asks)


def test_unread_answers_take_as_much_memory_as_they_have_bytes(daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(daemon.client().register()) for _ in range(30)]
        ping(peers, 1)
        before = daemon.memory_bytes()
        ping(peers, 500)
        assert daemon.memory_bytes() - before < len(peers) * MAX_UNREAD
        assert not any(peer.is_closed() for peer in peers)


def test_a_peer_that_does_not_read_is_closed_at_the_bound(daemon: Daemon) -> None:
    answer = len(encode(wire.Budget(0, 0, 0, 0, 0)))
    with daemon.client().register() as peer:
        peer.hear_all()
        asked = 0
        with contextlib.suppress(ConnectionError):
            while asked < 10 * MAX_UNREAD:
                peer.send(wire.BudgetAsk(0, 1, 0))
                asked += 1
                wait_until(lambda: peer.is_closed() or not queued(peer, termios.TIOCOUTQ), "it was read")
    daemon.log.wait_for("does not read what it is sent")
    assert MAX_UNREAD < asked * answer < MAX_UNREAD + 2 * SEND_BUFFER + 2 * answer


class FullTransport(asyncio.Transport):
    """Nobody reads, and the kernel's buffer is full."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"socket": connection})
        self.written = b""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)


def test_what_follows_a_big_unread_step_is_not_lost_the_peer_is_given_up() -> None:
    async def follow() -> list[str]:
        given_up: list[str] = []
        with socket.socket(socket.AF_UNIX) as connection:
            transport = FullTransport(connection)
            sending = Sending(transport, lambda: given_up.append("once"))
            sending.send(bytes(2 * MAX_UNREAD))
            sending.pause()
            assert not given_up  # one step may be as large as it is
            sending.send(b"one more")
            sending.send(b"and one more")
            await asyncio.sleep(0)
            return given_up

    assert asyncio.run(follow()) == ["once"]
