"""What a peer can do wrong on the clients' socket. Each time: it is closed, the log says why, a metric counts it, and
a bystander notices nothing."""

import contextlib
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvshare.wire import messages as wire
from nvshare.wire.codec import ENTRY_LAYOUT, encode
from support.client import GIB, WireClient, entry, registration
from support.daemon import Daemon, clean_environment

ABSURD = (1 << 56) + 1
REGISTER_SIZE = len(encode(registration()))


STOPPED_HOLDER = """
import os, signal, sys
from nvshare.wire.codec import encode
from nvshare.wire.messages import MemUpdate
from support.client import GIB, WireClient, entry
peer = WireClient(sys.argv[1]).register(entry(9))
peer.take_lock(10 * GIB)
peer.send_bytes(encode(MemUpdate(0, 1, GIB, 0))[:7])
print("holds the lock", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One scheduler for all: whatever one test did to it, the next finds it in order."""
    with Daemon(tmp_path_factory.mktemp("d"), "--http", "127.0.0.1:0") as made:
        yield made


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """For the tests in which somebody is closed because of its silence."""
    with Daemon(tmp_path_factory.mktemp("d"), "--http", "127.0.0.1:0", "--patience-seconds=1") as made:
        yield made


@pytest.fixture
def bystander(daemon: Daemon) -> Iterator[WireClient]:
    with bystander_of(daemon) as client:
        yield client


@contextlib.contextmanager
def bystander_of(daemon: Daemon) -> Iterator[WireClient]:
    """A client that must be able to work before and after."""
    with daemon.client().register() as client:
        lock = client.take_lock(GIB)
        yield client
        daemon.assert_alive()
        client.release(lock)
        assert client.take_lock(GIB) != lock
        assert all(isinstance(message, wire.Contended) for message in client.hear_all())


def frame(number: int, body: bytes = b"", *, length: int | None = None) -> bytes:
    return struct.pack("<HB", 3 + len(body) if length is None else length, number) + body


def truncated(message: wire.Message) -> bytes:
    data = encode(message)[:-1]
    return struct.pack("<H", len(data)) + data[2:]


def with_entries(count: int, size: int) -> bytes:
    """A REGISTER that claims entries which are not there."""
    data = encode(registration(entry_count=count, entry_size=size))
    assert len(data) == REGISTER_SIZE
    return data


SAYS: dict[str, tuple[list[bytes | wire.Message], str]] = {
    "an unknown type": ([frame(99, bytes(13))], "unknown message type 99"),
    "type 0": ([frame(0, bytes(13))], "unknown message type 0"),
    "the reserved number": ([frame(12, bytes(13))], "unknown message type 12"),
    "a message that only the scheduler sends": ([wire.LockOk(0, False, 1)], "unknown message type 5"),
    "a length shorter than the head": ([frame(4, bytes(20), length=2)], "frame length 2 is not within"),
    "a length of 0": ([frame(4, bytes(20), length=0)], "frame length 0 is not within"),
    "a length beyond every frame": ([frame(1, length=65535)], "frame length 65535 is not within"),
    "too short a REQ_LOCK": ([registration(entry()), truncated(wire.ReqLock(0, 0, 0, 0))], "ReqLock of .* bytes"),
    "too short a REGISTER": ([frame(1, bytes(5))], "Register of 8 bytes"),
    "a REGISTER that promises more GPUs than it brings": ([with_entries(3, ENTRY_LAYOUT.size)], "too short for 3 GPUs"),
    "a REGISTER with 200 GPUs": ([with_entries(200, 72)], "Register names 200 GPUs, at most 64"),
    "a REGISTER with entries too small": ([with_entries(1, 8)], "Register entries of 8 bytes"),
    "a REGISTER of one GPU twice": ([registration(entry(1), entry(1))], "names a GPU twice"),
    "a kind of GPU that there is not": ([registration(entry(kind=7))], "unknown kind of GPU: 7"),
    "a lock before REGISTER": ([wire.ReqLock(0, 0, 0, 0)], "ReqLock before Register"),
    "a release before REGISTER": ([wire.LockReleased(0, False, 1)], "LockReleased before Register"),
    "memory before REGISTER": ([wire.MemUpdate(0, 0, 0, 0)], "MemUpdate before Register"),
    "a question before REGISTER": ([wire.BudgetAsk(0, 1, 1)], "BudgetAsk before Register"),
    "a PING before REGISTER": ([wire.Ping(0)], "Ping before Register"),
    "a second REGISTER": ([registration(entry()), registration(entry())], "second Register"),
    "a GPU that it did not register": ([registration(entry()), wire.ReqLock(1, 0, 0, 0)], "GPU 1, but 1 were"),
    "a GPU although it registered none": ([registration(), wire.ReqLock(0, 0, 0, 0)], "GPU 0, but 0 were"),
    "a question about GPU 255": ([registration(entry()), wire.BudgetAsk(255, 1, 1)], "GPU 255, but 1 were"),
    "the operator's SET_TQ": ([registration(entry()), wire.SetTq(0, 1)], "SetTq is the operator's: use nvsharectl"),
    "SET_TQ before REGISTER": ([wire.SetTq(0, 1)], "SetTq is the operator's"),
    "absurd swappable memory": ([registration(entry()), wire.ReqLock(0, 0, ABSURD, 0)], "swappable is absurd"),
    "absurd unswappable memory": ([registration(entry()), wire.MemUpdate(0, 0, 0, ABSURD)], "unswappable is absurd"),
    "an absurd need": ([registration(entry()), wire.BudgetAsk(0, 1, ABSURD)], "need is absurd"),
    "an absurd use": ([registration(entry()), wire.BudgetReturn(0, 1, 0, ABSURD)], "used is absurd"),
    "a card of absurd size": ([registration(entry(size=ABSURD))], "size is absurd"),
    "absurd memory at REGISTER": ([registration(entry(swappable=ABSURD))], "swappable is absurd"),
    "an absurd limit at REGISTER": ([registration(entry(limit=ABSURD))], "limit is absurd"),
    "an absurd limit of its own": ([registration(entry(), own_limit=ABSURD)], "own_limit is absurd"),
    "a request to a web server": ([b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"], "unknown message type"),
    "the operator's language": ([b'{"op":"anti-thrash","on":false}\n'], "unknown message type"),
}


@pytest.mark.parametrize(("words", "reason"), SAYS.values(), ids=SAYS.keys())
def test_a_peer_that_breaks_the_protocol_is_closed(
    daemon: Daemon, bystander: WireClient, words: list[bytes | wire.Message], reason: str
) -> None:
    before = daemon.metric("nvshare_rejected_connections_total", kind="protocol") or 0
    with daemon.client() as peer:
        for word in words:
            peer.send_bytes(word if isinstance(word, bytes) else encode(word))
        peer.wait_closed()
    daemon.log.wait_for(rf"\[NVSHARE\]\[WARNING\]: Closing .* of pid \d+ \(.*\): .*{reason}")
    assert daemon.metric("nvshare_rejected_connections_total", kind="protocol") == before + 1


@pytest.mark.parametrize("said", [b"", encode(registration(entry()))[:2], encode(registration(entry()))[:50]])
def test_a_peer_that_never_finishes_its_registration_is_closed(impatient: Daemon, said: bytes) -> None:
    before = impatient.metric("nvshare_rejected_connections_total", kind="silent") or 0
    with bystander_of(impatient), impatient.client() as peer:
        peer.send_bytes(said)
        peer.wait_closed()
    impatient.log.wait_for("never registered")
    assert impatient.metric("nvshare_rejected_connections_total", kind="silent") == before + 1


def test_half_a_frame_then_silence_is_closed(impatient: Daemon) -> None:
    with bystander_of(impatient), impatient.client().register() as peer:
        peer.send_bytes(encode(wire.ReqLock(0, 0, 0, 0))[:7])
        peer.wait_closed()
    impatient.log.wait_for("half a frame, then silence")


def test_a_holder_that_is_stopped_in_the_middle_of_a_frame_is_closed_and_the_next_one_runs(
    impatient: Daemon,
) -> None:
    command = [sys.executable, "-c", STOPPED_HOLDER, impatient.socket]
    environment = clean_environment()
    environment["PYTHONPATH"] += f":{Path(__file__).parents[1]}"
    with (
        bystander_of(impatient),
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as stopped,
        impatient.client().register(entry(9)) as other,
    ):
        try:
            assert stopped.stdout is not None
            assert stopped.stdout.readline() == b"holds the lock\n"
            other.request(10 * GIB)
            other.hear_until(wire.LockOk)
        finally:
            stopped.kill()
    impatient.log.wait_for(rf"Closing .* of pid {stopped.pid} .*half a frame, then silence")


def test_frames_may_come_in_single_bytes_with_empty_writes_between_them(daemon: Daemon, bystander: WireClient) -> None:
    with daemon.client() as peer:
        for number in encode(registration(entry(9))) + encode(wire.ReqLock(0, 1, GIB, 0)):
            peer.socket.send(b"")
            peer.send_bytes(bytes([number]))
        peer.hear_until(wire.LockOk)


def test_a_peer_that_never_reads_is_closed_and_its_lock_freed(daemon: Daemon, bystander: WireClient) -> None:
    before = daemon.metric("nvshare_rejected_connections_total", kind="unread") or 0
    with daemon.client().register(entry(9)) as peer, daemon.client().register(entry(9)) as other:
        peer.take_lock(10 * GIB)
        other.request(10 * GIB)
        other.expect(wire.WaitForMem)
        with pytest.raises(ConnectionError):
            peer.send_bytes(encode(wire.BudgetAsk(0, 1, 0)) * 1_000_000)
        other.hear_until(wire.LockOk)
    daemon.log.wait_for("does not read what it is sent")
    assert daemon.metric("nvshare_rejected_connections_total", kind="unread") == before + 1


def test_bytes_by_chance_never_disturb_anybody(daemon: Daemon, bystander: WireClient) -> None:
    chance = random.Random(20261115)
    for _ in range(300):
        with daemon.client() as peer:
            if chance.random() < 0.5:
                peer.register(entry(chance.randrange(3)))
            with contextlib.suppress(ConnectionError):
                peer.send_bytes(chance.randbytes(chance.randrange(1, 400)))
    daemon.assert_alive()


sizes = st.one_of(st.integers(0, 1 << 56), st.sampled_from([0, 1, GIB, 1 << 56]))
numbers = st.one_of(st.integers(0, (1 << 32) - 1), st.integers(0, 3))
locks = st.one_of(st.integers(0, (1 << 64) - 1), st.integers(0, 3))
indices = st.integers(0, 2)
budgets = st.one_of(locks, sizes)
contexts = st.integers(0, 65535)
entries = st.builds(
    entry,
    st.integers(0, 3),
    kind=st.integers(0, 1),
    state=st.integers(0, 3),
    contexts=contexts,
    size=sizes,
    lock=locks,
    swappable=sizes,
    unswappable=sizes,
    limit=sizes,
    budget=budgets,
)
registrations = st.builds(
    lambda e, **more: registration(*e, **more),
    st.lists(entries, max_size=4, unique_by=lambda one: (one.uuid, one.kind)),
    own_limit=sizes,
    priority=st.integers(-32768, 32767),
    weight=st.integers(0, 65535),
    name=st.binary(max_size=48),
    version=st.integers(0, 65535),
    run=st.sampled_from([bytes(16), b"r" * 16]),
)
words = st.one_of(
    st.builds(wire.ReqLock, indices, contexts, sizes, sizes),
    st.builds(wire.LockReleased, indices, st.booleans(), locks),
    st.builds(wire.MemUpdate, indices, contexts, sizes, sizes),
    st.builds(wire.Idle, indices),
    st.builds(wire.Busy, indices),
    st.builds(wire.BudgetAsk, indices, numbers, sizes),
    st.builds(wire.BudgetReturn, indices, numbers, budgets, sizes),
)
lies = st.lists(st.tuples(registrations, st.lists(words, max_size=12)), min_size=1, max_size=4)


@settings(max_examples=150)
@given(lies=lies)
def test_lies_in_well_formed_messages_never_end_the_scheduler(
    daemon: Daemon, lies: list[tuple[wire.Register, list[wire.Message]]]
) -> None:
    peers = [daemon.client() for _ in lies]
    for turn in range(13):
        for peer, (said, then) in zip(peers, lies, strict=True):
            message = said if turn == 0 else then[turn - 1] if turn <= len(then) else None
            if message is not None:
                with contextlib.suppress(ConnectionError):
                    peer.send(message)
    for peer in peers:
        peer.close()
    with daemon.client().register(entry(50)) as witness:
        witness.take_lock()
    daemon.assert_alive()


def test_operators_words_do_not_work_on_the_clients_socket_even_for_root(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(daemon.socket)
        peer.sendall(b'{"op":"set-tq","seconds":1}\n')
        assert peer.recv(100) == b""
    assert all(gpu["mode"] == "balanced" for gpu in daemon.status()["gpus"])


def test_after_all_that_memory_and_descriptors_are_bounded(daemon: Daemon) -> None:
    assert daemon.memory_bytes() < 100e6
    with daemon.client().register() as client:
        client.take_lock()
        assert daemon.descriptors() < 30
    assert "Traceback" not in daemon.log.text


def test_a_flood_of_pings_is_no_flood_of_answers(daemon: Daemon, bystander: WireClient) -> None:
    with daemon.client().register() as client:
        client.send(*[wire.Ping(0)] * 2000)
        assert 1 <= client.hear_all().count(wire.Pong(0)) < 100
