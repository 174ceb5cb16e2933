"""The identity of a peer, as the kernel reports it; what the peer says about itself does not count.

The kernel gives the peer's pid, uid and a pidfd; /proc/PID/cgroup names the pod or container of the process. A pod can
make cgroups inside its own and choose their names, so the *outermost* pod segment counts. Outside Kubernetes the group
that shares a limit is the container, else one `nvshare run` of this user, else the process alone. The kernel gives a
pid to another process later, so the process is named by its pid, its start time and the boot."""

import contextlib
import errno
import functools
import os
import re
import select
import socket
from pathlib import Path

from nvshare.core.limits.group_names import CONTAINER_PREFIX, POD_PREFIX, PROCESS_PREFIX, RUN_PREFIX
from nvshare.inventory.processes import proc_text, start_of
from nvshare.printable import printable
from nvshare.record import Record
from nvshare.translation import Registrant
from nvshare.unix_socket import is_operator, peer_credentials

SO_PEERPIDFD = 77
PF_EXITING = 0x4
"""A flag of a thread, from linux/sched.h."""
NAME_LENGTH = 64
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_UID = r"[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:.*kubepods(?:-[a-z]+)?-)?pod(?P<uid>{_UID})(?:\.slice)?")
_KUBEPODS = re.compile(r"(?:.*-)?kubepods(?:-[a-z]+)?(?:\.slice)?")
_CONTAINER = re.compile(r"(?:[a-z][a-z-]*-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_USER_SLICE = re.compile(r"user-(?P<uid>[0-9]{1,10})\.slice")
_V1_ORDER = ("memory", "devices", "pids", "cpu", "name=systemd")


class IdentityError(Exception):
    """The peer cannot be identified; the text names the remedy."""


class Peer(Record, frozen=True):
    """A process at the other end of a socket. `pidfd` is readable once it has ended. `slice_uid`: the user in whose
    slice it runs, if it runs in one; `uid` may be a subordinate one of that user. `start`: when it started, in clock
    ticks since the boot; 0 in a pod or a container, where nobody asks for it."""

    pid: int
    uid: int
    pidfd: int
    pod: str | None
    container: str | None
    command: str
    slice_uid: int | None = None
    start: int = 0


class CgroupOwner(Record, frozen=True):
    """The pod and the container that a cgroup belongs to."""

    pod: str | None = None
    container: str | None = None


def peer_of(connection: socket.socket, proc: Path = Path("/proc")) -> Peer:
    """The process behind a connected unix socket, held by a pidfd that the caller closes."""
    credentials = peer_credentials(connection)
    pid = credentials.pid
    if pid == 0:
        raise IdentityError(
            "the peer is in another PID namespace; run the scheduler with hostPID: true (docker: --pid=host)"
        )
    pidfd = _pidfd(connection, pid)
    try:
        cgroups = proc_text(proc / str(pid) / "cgroup")
        owner = cgroup_owner(cgroups)
        command = printable(proc_text(proc / str(pid) / "comm").strip(), NAME_LENGTH)
        start = 0 if owner.pod or owner.container else start_of(proc / str(pid))
        if _has_ended(pidfd):
            raise IdentityError(f"process {pid} ended while connecting")
    except OSError as error:
        has_ended = _has_ended(pidfd)
        os.close(pidfd)
        if has_ended:
            raise IdentityError(f"process {pid} ended while connecting") from None
        raise IdentityError(
            f"cannot read /proc of process {pid}: {error.strerror}; does the scheduler see the host's /proc?"
        ) from None
    except IdentityError:
        os.close(pidfd)
        raise
    return Peer(pid, credentials.uid, pidfd, owner.pod, owner.container, command, slice_user(cgroups), start)


def is_ending(peer: Peer, proc: Path = Path("/proc")) -> bool:
    """Whether the process has begun to end. The kernel then closes its files one after the other: the connection may be
    closed while the GPU's memory is not free yet. `pidfd` is readable when all of them are closed."""
    try:
        fields = proc_text(proc / str(peer.pid) / "stat").rpartition(")")[2].split()
        return bool(int(fields[6]) & PF_EXITING)
    except (OSError, ValueError, IndexError):  # it is gone, or this is not the file that we know
        return False


def cgroup_owner(cgroups: str) -> CgroupOwner:
    """The owner in the text of /proc/PID/cgroup. With both hierarchies mounted the v1 lines count."""
    for path in _paths(cgroups):
        owner = _owner_in(path)
        if owner.pod or owner.container:
            return owner
    return CgroupOwner()


def slice_user(cgroups: str) -> int | None:
    """The user in whose slice a process runs: systemd makes `user.slice/user-UID.slice`, and only root leaves it."""
    for path in _paths(cgroups):
        segments = [segment for segment in path.split("/") if segment not in ("", "..")]
        user = _USER_SLICE.fullmatch(segments[1]) if len(segments) > 1 and segments[0] == "user.slice" else None
        if user:
            return int(user["uid"])
    return None


def group_of(peer: Peer, run: bytes) -> tuple[str, str]:
    """The group that shares a limit, and a readable name for it."""
    if peer.pod:
        return f"{POD_PREFIX}{peer.pod}", f"pod {peer.pod}"
    if peer.container:
        # A user chooses the names of cgroups in the user's own slice, and may choose the ID of another container.
        owner = "" if peer.slice_uid is None else f"{peer.slice_uid}-"
        return f"{CONTAINER_PREFIX}{owner}{peer.container}", f"container {peer.container[:12]}"
    if any(run):
        return f"{RUN_PREFIX}{peer.uid}-{run.hex()}", f"run {run.hex()[:8]}"
    return process_group(peer.pid, peer.start), f"process {peer.pid}"


def process_group(pid: int, start: int) -> str:
    return f"{PROCESS_PREFIX}{pid}-{start}-{_boot()}"


def has_process_ended(group: str, proc: Path = Path("/proc")) -> bool:
    """Whether the process that is this group has ended. A process of which only the first thread has ended has
    not ended."""
    pid = group.removeprefix(PROCESS_PREFIX).partition("-")[0]
    if not (pid.isascii() and pid.isdecimal()):
        return True  # No process has this name.
    try:
        pidfd = os.pidfd_open(int(pid))
    except OverflowError:
        return True
    except OSError as error:
        return error.errno in (errno.ESRCH, errno.EINVAL, errno.ENOENT)  # none, or a thread of another process
    try:
        return group != process_group(int(pid), start_of(proc / pid)) or _has_ended(pidfd)
    except OSError:
        return _has_ended(pidfd)
    finally:
        os.close(pidfd)


@functools.cache
def _boot() -> str:
    """Identifies the time since the boot of this machine."""
    try:
        return proc_text(BOOT_ID)[:8]
    except OSError:
        return ""


def registrant_of(client: int, peer: Peer, run: bytes, account: str) -> Registrant:
    """The peer as the one who registers as `client`; `run` is what its REGISTER says of the `nvshare run` it is in."""
    group, label = group_of(peer, run)
    return Registrant(
        client,
        peer.pid,
        group,
        label,
        peer.command,
        is_in_pod=peer.pod is not None,
        may_raise=may_raise(peer),
        uid=peer.uid,
        account=account,
    )


def may_raise(peer: Peer) -> bool:
    """Whether the program may raise its own priority, and its weight above the default. As with nice(1): every program
    may lower them, and only those of users who may give orders may raise them. Not in a container, where root has user
    ID 0 too."""
    return peer.pod is None and peer.container is None and is_operator(peer.uid)


def _paths(cgroups: str) -> list[str]:
    """The cgroup paths to look at: the v1 controllers in a fixed order, then the unified one."""
    by_controller: dict[str, str] = {}
    for line in cgroups.split("\n"):  # splitlines() also splits at characters that a cgroup's name may hold
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            by_controller.update(dict.fromkeys(controllers.split(","), path))
    return [by_controller[name] for name in (*_V1_ORDER, "") if name in by_controller]


def _owner_in(path: str) -> CgroupOwner:
    # kubelet and containerd with different drivers give one name `POD.slice:cri-containerd:CONTAINER`.
    segments = [segment for segment in path.replace(":", "/").split("/") if segment]
    if _is_in_user_slice(segments):
        return CgroupOwner(None, _container_in(segments))
    is_below_pods = False
    for index, segment in enumerate(segments):
        if segment == ".." or _KUBEPODS.fullmatch(segment):
            # Seen from the scheduler's own cgroup namespace a neighbour's path starts with `/..`.
            is_below_pods = True
        pod = _POD.fullmatch(segment)
        if pod and (is_below_pods or "kubepods" in segment):
            uid = pod["uid"].replace("_", "-")
            return CgroupOwner(uid, _container_in(segments[index + 1 :]))
    return CgroupOwner(None, _container_in(segments))


def _is_in_user_slice(segments: list[str]) -> bool:
    """Below user.slice users choose the names of cgroups; kubelet makes none there."""
    return next((segment for segment in segments if segment != ".."), "") == "user.slice"


def _container_in(segments: list[str]) -> str | None:
    for segment in segments:
        match = _CONTAINER.fullmatch(segment)
        if match:
            return match["id"]
    return None


def _pidfd(connection: socket.socket, pid: int) -> int:
    with contextlib.suppress(OSError):
        # Linux 6.5 and later: the process that connected, even if its pid has been reused since.
        return connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise IdentityError(f"process {pid} ended while connecting") from None
    except OSError as error:
        raise IdentityError(f"no pidfd for process {pid}: {error.strerror}; Linux 5.3 or later is needed") from None


def _has_ended(pidfd: int) -> bool:
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
