"""Peers that are processes of their own: what the kernel says of them, what they call themselves, how they end."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nvshare.wire import messages as wire
from support.client import GIB, entry, registration
from support.daemon import Daemon, clean_environment
from support.fixtures import StartDaemon

TESTS = str(Path(__file__).parents[1])
ESCAPES = b"\x1b]0;owned\x07\x1b[31m<b>&\"'\\{}\n\r[NVSHARE][INFO]: forged"


def script(text: str, *words: str, wrapper: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """A process with the scripted client at hand. It goes on until its standard input is closed."""
    environment = clean_environment()
    environment["PYTHONPATH"] += os.pathsep + TESTS
    return subprocess.Popen(
        [*wrapper, sys.executable, "-c", text, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


def first_line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


HOLDER = """
import os, sys
from support.client import WireClient
client = WireClient(sys.argv[1]).register()
client.take_lock(10 << 30)
child = os.fork()
if child:
    print(child, flush=True)
sys.stdin.buffer.read()
"""


def test_a_killed_holders_lock_is_free_at_once_although_a_child_keeps_its_socket(daemon: Daemon) -> None:
    holder = script(HOLDER, daemon.socket)
    child = int(first_line(holder))
    with daemon.client().register() as waits:
        waits.request(10 * GIB)
        waits.expect(wire.WaitForMem)
        holder.kill()
        waits.hear_until(wire.LockOk)
        os.kill(child, 0)
        assert any(str(one.readlink()).startswith("socket:") for one in Path(f"/proc/{child}/fd").iterdir())
    daemon.log.wait_for(r"Client left: \w+ \(process ended\)")
    holder.communicate()


def test_a_holder_that_exits_without_a_message_frees_its_lock(daemon: Daemon) -> None:
    holder = script(HOLDER.replace("os.fork()", "1"), daemon.socket)
    first_line(holder)
    with daemon.client().register() as waits:
        waits.request(10 * GIB)
        waits.expect(wire.WaitForMem)
        holder.communicate()
        waits.hear_until(wire.LockOk)


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0


needs_namespaces = pytest.mark.skipif(not can_unshare(), reason="PID namespaces cannot be made here")


@needs_namespaces
def test_a_peer_outside_the_schedulers_pid_namespace_is_refused_with_the_remedy(start_daemon: StartDaemon) -> None:
    inside = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    daemon = start_daemon("--http", "127.0.0.1:0", wrapper=inside)
    with daemon.client() as peer:
        with contextlib.suppress(BrokenPipeError):  # it may be refused before it says anything
            peer.send(registration(entry()))
        peer.wait_closed()
    line = daemon.log.wait_for("the peer is in another PID namespace")
    assert "hostPID: true" in line
    assert "--pid=host" in line
    assert daemon.metric("nvshare_rejected_connections_total", kind="refused") == 1


INSIDE = """
import sys
from support.client import WireClient
client = WireClient(sys.argv[1]).register()
client.take_lock()
print(client.name, flush=True)
sys.stdin.buffer.read()
"""


@needs_namespaces
def test_a_peer_in_a_pid_namespace_below_is_known_by_the_pid_that_the_scheduler_sees(daemon: Daemon) -> None:
    peer = script(INSIDE, daemon.socket, wrapper=("unshare", "--pid", "--fork", "--kill-child"))
    name = first_line(peer)
    (client,) = daemon.status()["gpus"][0]["clients"]
    assert client["id"] == name
    assert client["pid"] not in (0, 1, peer.pid)
    assert Path(f"/proc/{client['pid']}/stat").read_text().split()[3] == str(peer.pid)
    peer.communicate()


POD = "9c8d2e0a-3a5f-4f4e-8d5c-0f6c3d1b2a7e"
OTHER = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A real cgroup named as kubelet and containerd name them, in a hierarchy that can be written here."""
    roots = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")]
    root = next((one for one in roots if (one / "cgroup.procs").exists()), None)
    if root is None or not os.access(root, os.W_OK):
        pytest.skip("no cgroup can be made here")
    leaf = root / f"nvshare-test-{os.getpid()}" / "kubepods" / "burstable" / f"pod{POD}" / ("ab" * 32)
    nested = leaf / "kubepods" / f"pod{OTHER}" / ("cd" * 32)
    try:
        nested.mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    yield leaf
    place = nested
    while place != root:
        place.rmdir()
        place = place.parent


IN_CGROUP = """
import os, sys
open(sys.argv[2] + "/cgroup.procs", "w").write(str(os.getpid()))
from support.client import WireClient
client = WireClient(sys.argv[1]).register(run=b"x" * 16)
print(client.name, flush=True)
sys.stdin.buffer.read()
"""


def test_processes_of_a_pod_share_its_limit_even_from_a_cgroup_that_names_another(daemon: Daemon, cgroup: Path) -> None:
    inside = cgroup / "kubepods" / f"pod{OTHER}" / ("cd" * 32)
    peers = [script(IN_CGROUP, daemon.socket, str(place)) for place in (cgroup, inside)]
    names = [first_line(peer) for peer in peers]
    clients = daemon.status()["gpus"][0]["clients"]
    assert sorted(client["id"] for client in clients) == sorted(names)
    assert {client["group"] for client in clients} == {f"pod/{POD}"}
    daemon.ctl("limit", POD, "2Gi")
    assert {client["limit_bytes"] for client in daemon.status()["gpus"][0]["clients"]} == {2 * GIB}
    assert daemon.log.wait_for("Memory limit").endswith(f"Memory limit changed for pod {POD}: 0 -> 2147483648 bytes")
    for peer in peers:
        peer.communicate()


HOSTILE = """
import sys
from support.client import WireClient, entry
open("/proc/self/comm", "wb").write(bytes.fromhex(sys.argv[2])[:15])
client = WireClient(sys.argv[1]).register(entry(), name=bytes.fromhex(sys.argv[3]))
client.take_lock(10 << 30)
print(client.name, flush=True)
sys.stdin.buffer.read()
"""

NAMES = {
    "terminal escapes": (b"\x1b[2J\x1b]0;x\x07", ESCAPES[:48]),
    "line breaks": (b"a\nb\r\x0b\x0c\x85", b"two\nlines\r\xe2\x80\xa8and\xc2\x85more"),
    "no UTF-8": (b"\xff\xfe\x80", b"\xff\xfe\x80\xc3"),
    "markup": (b"<script>\"'&", b"<script>alert(1)</script>\"'\\{}="),
    "right to left": ("\u202e\u2066x".encode(), "\u202e\u2066\u200bx\ufeff".encode()),
    "nothing": (b"", b""),
}


@pytest.mark.parametrize(("comm", "name"), NAMES.values(), ids=NAMES.keys())
def test_whatever_a_process_calls_itself_reports_stay_clean(daemon: Daemon, comm: bytes, name: bytes) -> None:
    peer = script(HOSTILE, daemon.socket, comm.hex(), name.hex())
    client = first_line(peer)
    assert client
    with daemon.client().register() as waits:
        waits.request(10 * GIB)
        waits.expect(wire.WaitForMem)
        texts = [
            daemon.log.text,
            daemon.ctl("status"),
            daemon.ctl("status", "-o", "wide"),
            daemon.ctl("status", "-o", "yaml"),
            daemon.ctl("events"),
            daemon.ctl("story", client),
            daemon.metrics_text(),
        ]
        shown = daemon.status()["gpus"][0]["clients"][0]["name"]
    peer.communicate()
    for text in texts:
        for line in text.split("\n"):
            assert line.isprintable(), line
        assert not any(line.startswith("[NVSHARE][INFO]: forged") for line in text.split("\n"))
    assert shown.isprintable()
    if name:
        assert "\n" not in shown
    daemon.log.wait_for(f"Client left: {client}")
    assert daemon.metric("nvshare_client_running", client=client) is None
    daemon.assert_alive()


def test_a_peer_that_is_closed_in_the_log_is_named_cleanly_too(daemon: Daemon) -> None:
    text = HOSTILE.replace(
        "client.take_lock(10 << 30)", "client.send_bytes(b'x' * 9); client.wait_closed(); print('closed', flush=True)"
    )
    peer = script(text, daemon.socket, ESCAPES.hex(), ESCAPES[:48].hex())
    assert first_line(peer) == "closed"
    peer.communicate()
    line = daemon.log.wait_for("Closing client")
    assert line.isprintable()


def test_a_stopped_holder_is_revoked_after_the_grace_time_and_is_not_queued_while_it_is_silent(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("--grace-seconds", "0.3", "--switch-time-mode=fixed", "--switch-time-fixed=1", "--http=:0")
    peer = script(INSIDE.replace("take_lock()", "take_lock(10 << 30)"), daemon.socket)
    name = first_line(peer)
    peer.send_signal(signal.SIGSTOP)
    with daemon.client().register() as waits:
        waits.take_lock(10 * GIB)
        daemon.log.wait_for(f"Client {name} .*revoked")
        (gpu,) = daemon.status()["gpus"]
        assert (gpu["running"], gpu["waiting"]) == (1, 0)
        assert daemon.metric("nvshare_lock_revocations_total", gpu=gpu["uuid"]) == 1
    peer.send_signal(signal.SIGCONT)
    peer.communicate()
