"""Who a peer is: what the kernel says, never what the peer says.

The kernel gives the peer's pid, uid and a pidfd; /proc/PID/cgroup says which pod or container the process is in. A pod
can make cgroups inside its own and name them as it likes, so the *outermost* pod segment counts. Off-cluster the group
that shares a limit is the container, else one `nvshare run` of this user, else the process alone."""

import contextlib
import os
import re
import select
import socket
import struct
from pathlib import Path

from nvshare.record import Record

SO_PEERPIDFD = 77
NAME_LENGTH = 64

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:.*kubepods(?:-[a-z]+)?-)?pod(?P<uid>{_UID})(?:\.slice)?")
_KUBEPODS = re.compile(r"(?:.*-)?kubepods(?:-[a-z]+)?(?:\.slice)?")
_CONTAINER = re.compile(r"(?:[a-z][a-z-]*-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_V1_ORDER = ("memory", "devices", "pids", "cpu", "name=systemd")


class IdentityError(Exception):
    """The peer cannot be told apart from others; the text names the remedy."""


class Peer(Record, frozen=True):
    """A process at the other end of a socket. `pidfd` is readable once it has ended."""

    pid: int
    uid: int
    pidfd: int
    pod: str | None
    container: str | None
    command: str


class Place(Record, frozen=True):
    """Where a process is, by its cgroup."""

    pod: str | None = None
    container: str | None = None


def peer_of(connection: socket.socket, proc: Path = Path("/proc")) -> Peer:
    """The process behind a connected unix socket, held by a pidfd that the caller closes."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid == 0:
        raise IdentityError(
            "the peer is in another PID namespace; run the scheduler with hostPID: true (docker: --pid=host)"
        )
    pidfd = _pidfd(connection, pid)
    try:
        place = place_of(proc_text(proc / str(pid) / "cgroup"))
        command = printable(proc_text(proc / str(pid) / "comm").strip())
        if _has_ended(pidfd):
            raise IdentityError(f"process {pid} ended while connecting")
    except OSError as error:
        os.close(pidfd)
        raise IdentityError(f"process {pid} cannot be looked up: {error.strerror}") from None
    except IdentityError:
        os.close(pidfd)
        raise
    return Peer(pid, uid, pidfd, place.pod, place.container, command)


def proc_text(path: Path) -> str:
    """A file of /proc. A process names itself and its cgroups as it likes, in any bytes."""
    return path.read_bytes().decode("utf-8", "replace")


def place_of(cgroups: str) -> Place:
    """The pod and container in the text of /proc/PID/cgroup. With both hierarchies mounted the v1 lines count."""
    for path in _paths(cgroups):
        place = _place_in(path)
        if place.pod or place.container:
            return place
    return Place()


def group_of(peer: Peer, run: bytes) -> tuple[str, str]:
    """The group that shares a limit, and a readable name for it."""
    if peer.pod:
        return f"pod/{peer.pod}", f"pod {peer.pod}"
    if peer.container:
        return f"container/{peer.container}", f"container {peer.container[:12]}"
    if any(run):
        return f"run/{peer.uid}-{run.hex()}", f"run {run.hex()[:8]}"
    return f"process/{peer.pid}", f"process {peer.pid}"


def printable(text: str, length: int = NAME_LENGTH) -> str:
    """A name from outside, fit for a terminal, a log line and a page: no control characters, not too long."""
    return "".join(char if char.isprintable() else "?" for char in text[:length])


def _paths(cgroups: str) -> list[str]:
    """The cgroup paths to look at: the v1 controllers in a fixed order, then the unified one."""
    by_controller: dict[str, str] = {}
    for line in cgroups.split("\n"):  # splitlines() also splits at characters that a cgroup's name may hold
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            by_controller.update(dict.fromkeys(controllers.split(","), path))
    return [by_controller[name] for name in (*_V1_ORDER, "") if name in by_controller]


def _place_in(path: str) -> Place:
    # kubelet and containerd with different drivers give one name `POD.slice:cri-containerd:CONTAINER`.
    segments = [segment for segment in path.replace(":", "/").split("/") if segment]
    if _is_users(segments):
        return Place(None, _container_in(segments))
    is_below_pods = False
    for index, segment in enumerate(segments):
        if segment == ".." or _KUBEPODS.fullmatch(segment):
            # Seen from the scheduler's own cgroup namespace a neighbour's path starts with `/..`.
            is_below_pods = True
        pod = _POD.fullmatch(segment)
        if pod and (is_below_pods or "kubepods" in segment):
            uid = pod["uid"].replace("_", "-")
            return Place(uid, _container_in(segments[index + 1 :]))
    return Place(None, _container_in(segments))


def _is_users(segments: list[str]) -> bool:
    """Below user.slice a user makes cgroups as it likes; kubelet's are never there."""
    return next((segment for segment in segments if segment != ".."), "") == "user.slice"


def _container_in(segments: list[str]) -> str | None:
    for segment in segments:
        match = _CONTAINER.fullmatch(segment)
        if match:
            return match["id"]
    return None


def _pidfd(connection: socket.socket, pid: int) -> int:
    with contextlib.suppress(OSError):
        # Linux 6.5 and later: the very process that connected, no matter what has become of its pid.
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise IdentityError(f"process {pid} cannot be held: {error.strerror}") from None


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
