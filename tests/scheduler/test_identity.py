"""The identity of a peer, from the texts that kernels and container runtimes write into /proc/PID/cgroup."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.scheduler.clients import identity
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.clients.identity import (
    CgroupOwner,
    IdentityError,
    Peer,
    cgroup_owner,
    group_of,
    may_raise,
    peer_of,
    slice_user,
)

POD = "9c8d2e0a-3a5f-4f4e-8d5c-0f6c3d1b2a7e"
OTHER = "11111111-2222-3333-4444-555555555555"
STATIC = "0123456789abcdef0123456789abcdef"
C = "ab" * 32
D = "cd" * 32
_POD = POD.replace("-", "_")
_OTHER = OTHER.replace("-", "_")

V1 = """\
12:pids:{0}
11:memory:{0}
10:devices:{0}
5:cpu,cpuacct:{0}
1:name=systemd:{0}
"""


def v1(path: str) -> str:
    return V1.format(path)


def v2(path: str) -> str:
    return f"0::{path}\n"


OWNERS = {
    # containerd and Docker under kubelet
    "containerd, cgroupfs, v2": (v2(f"/kubepods/besteffort/pod{POD}/{C}"), CgroupOwner(POD, C)),
    "containerd, cgroupfs, guaranteed": (v2(f"/kubepods/pod{POD}/{C}"), CgroupOwner(POD, C)),
    "containerd, systemd, v2": (
        v2(f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    "containerd, systemd, guaranteed": (
        v2(f"/kubepods.slice/kubepods-pod{_POD}.slice/cri-containerd-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    "containerd, cgroupfs, v1": (v1(f"/kubepods/burstable/pod{POD}/{C}"), CgroupOwner(POD, C)),
    "containerd's own driver cgroupfs while kubelet's is systemd": (
        v2(f"/system.slice/containerd.service/kubepods-burstable-pod{_POD}.slice:cri-containerd:{C}"),
        CgroupOwner(POD, C),
    ),
    "the same at the top": (v1(f"/kubepods-besteffort-pod{_POD}.slice:cri-containerd:{C}"), CgroupOwner(POD, C)),
    "dockershim": (
        v1(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/docker-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    # CRI-O
    "CRI-O, systemd": (
        v2(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/crio-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    "CRI-O with a container below its scope": (
        v2(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/crio-{C}.scope/container"),
        CgroupOwner(POD, C),
    ),
    "CRI-O, cgroupfs": (v1(f"/kubepods/besteffort/pod{POD}/crio-{C}"), CgroupOwner(POD, C)),
    # both hierarchies: the v1 lines count
    "hybrid": (v1(f"/kubepods/besteffort/pod{POD}/{C}") + "0::/system.slice/containerd.service\n", CgroupOwner(POD, C)),
    "hybrid with another's UID in the unified line": (
        v1(f"/kubepods/pod{POD}/{C}") + v2(f"/kubepods/pod{OTHER}/{D}"),
        CgroupOwner(POD, C),
    ),
    "hybrid with v1 controllers empty": (v1("/") + v2(f"/kubepods/pod{POD}/{C}"), CgroupOwner(POD, C)),
    # kubelet in a place of its own
    "kubelet with a cgroup root": (v2(f"/nodes/kubepods/burstable/pod{POD}/{C}"), CgroupOwner(POD, C)),
    "a node that is itself a container": (
        v2(
            f"/system.slice/docker-{D}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{_POD}.slice/cri-containerd-{C}.scope"
        ),
        CgroupOwner(POD, C),
    ),
    "a static pod": (v2(f"/kubepods/burstable/pod{STATIC}/{C}"), CgroupOwner(STATIC, C)),
    # seen from a private cgroup namespace
    "a neighbour of the same class": (v2(f"/../../pod{POD}/{C}"), CgroupOwner(POD, C)),
    "a neighbour of another class": (v2(f"/../../../burstable/pod{POD}/{C}"), CgroupOwner(POD, C)),
    "a neighbour, systemd": (
        v2(f"/../../kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    "a neighbour, systemd, of another class": (
        v2(f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        CgroupOwner(POD, C),
    ),
    # a pod with cgroups of its own making
    "nested cgroups that carry another pod's UID": (
        v2(f"/kubepods/besteffort/pod{POD}/{C}/kubepods/pod{OTHER}/{D}"),
        CgroupOwner(POD, C),
    ),
    "nested, systemd": (
        v2(
            f"/kubepods.slice/kubepods-pod{_POD}.slice/cri-containerd-{C}.scope/kubepods.slice/"
            f"kubepods-pod{_OTHER}.slice/cri-containerd-{D}.scope"
        ),
        CgroupOwner(POD, C),
    ),
    "nested, with line breaks that only Python knows": (
        v2(f"/kubepods/pod{POD}/{C}/x\x0c0::/kubepods/pod{OTHER}/{D}"),
        CgroupOwner(POD, C),
    ),
    "nested, with colons": (v2(f"/kubepods/pod{POD}/{C}/x:0::/kubepods/pod{OTHER}/{D}"), CgroupOwner(POD, C)),
    "a pod's name without kubelet's place above it": (v2(f"/system.slice/pod{OTHER}/{C}"), CgroupOwner(None, C)),
    "a user's own cgroups": (
        v2(f"/user.slice/user-1000.slice/user@1000.service/kubepods/pod{OTHER}/{C}"),
        CgroupOwner(None, C),
    ),
    "a user's own cgroups from a private namespace": (
        v2(f"/../../../user.slice/user-1000.slice/user@1000.service/kubepods/pod{OTHER}/{C}"),
        CgroupOwner(None, C),
    ),
    # containers without Kubernetes
    "Docker, cgroupfs": (v1(f"/docker/{C}"), CgroupOwner(None, C)),
    "Docker, systemd": (v2(f"/system.slice/docker-{C}.scope"), CgroupOwner(None, C)),
    "Docker in Docker": (v2(f"/docker/{C}/docker/{D}"), CgroupOwner(None, C)),
    "podman": (v2(f"/machine.slice/libpod-{C}.scope/container"), CgroupOwner(None, C)),
    "podman, rootless": (
        v2(f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{C}.scope/container"),
        CgroupOwner(None, C),
    ),
    # the host
    "a shell": (v2("/user.slice/user-1000.slice/session-2.scope"), CgroupOwner()),
    "a service": (v2("/system.slice/cron.service"), CgroupOwner()),
    "the root": (v2("/"), CgroupOwner()),
    "no cgroups": ("", CgroupOwner()),
    "not the text of a cgroup file": ("\0\n::::\n:\nx", CgroupOwner()),
    "a short hex name is no container": (v2("/docker/abcdef"), CgroupOwner()),
}


@pytest.mark.parametrize(("text", "place"), OWNERS.values(), ids=OWNERS.keys())
def test_a_process_is_placed_by_its_cgroup(text: str, place: CgroupOwner) -> None:
    assert cgroup_owner(text) == place


USERS = {
    "a shell": (v2("/user.slice/user-1000.slice/session-2.scope"), 1000),
    "a rootless container": (v2(f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{C}.scope"), 1000),
    "from a private namespace": (v2("/../../user.slice/user-1000.slice/session-2.scope"), 1000),
    "v1": ("3:cpu:/\n1:name=systemd:/user.slice/user-1000.slice/session-2.scope\n", 1000),
    "a name that a pod chose": (v2(f"/kubepods/pod{POD}/{C}/user.slice/user-1000.slice"), None),
    "a service": (v2("/system.slice/cron.service"), None),
    "nobody's slice": (v2("/user.slice"), None),
    "another name below the slices": (v2("/user.slice/x"), None),
}


@pytest.mark.parametrize(("text", "uid"), USERS.values(), ids=USERS.keys())
def test_the_user_in_whose_slice_a_process_runs(text: str, uid: int | None) -> None:
    assert slice_user(text) == uid


def test_subordinate_uids_and_rootless_containers_are_one_account_with_their_user() -> None:
    admission = ConnectionAdmission(max_connections=100, max_per_account=10)
    peers = [
        Peer(7, 1000, -1, None, None, "python", 1000),
        Peer(8, 100_000, -1, None, None, "python", 1000),
        Peer(9, 100_001, -1, None, C, "python", 1000),
    ]
    assert len({admission.account_of(one) for one in peers}) == 1
    assert admission.account_of(Peer(10, 100_000, -1, None, None, "python")).name == "uid/100000"
    for one in peers:
        admission.release(object(), one)


def peer(*, pod: str | None = None, container: str | None = None, slice_uid: int | None = None) -> Peer:
    return Peer(
        pid=7, uid=1000, pidfd=-1, pod=pod, container=container, command="python", slice_uid=slice_uid, start=42
    )


def test_only_a_user_who_may_give_orders_may_raise_its_own_priority() -> None:
    mine = os.geteuid()
    somebody = {"its user": mine, "root": 0, "another user": mine + 1000}
    outside = {name: may_raise(Peer(7, uid, -1, None, None, "python")) for name, uid in somebody.items()}
    inside = [may_raise(Peer(7, 0, -1, pod, C, "python")) for pod in (None, POD)]
    assert outside == {"its user": True, "root": True, "another user": False}
    assert inside == [False, False], "root in a container is not the operator"


RUN = bytes(range(16))
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
GROUPS = {
    "a pod": (peer(pod=POD, container=C), bytes(16), f"pod/{POD}"),
    "a pod, whatever run it says it is": (peer(pod=POD, container=C), RUN, f"pod/{POD}"),
    "a container": (peer(container=C), RUN, f"container/{C}"),
    "a cgroup named like a container, in a user's slice": (
        peer(container=C, slice_uid=1000),
        RUN,
        f"container/1000-{C}",
    ),
    "one nvshare run of a user": (peer(), RUN, f"run/1000-{RUN.hex()}"),
    "a process alone": (peer(), bytes(16), f"process/7-42-{BOOT}"),
}


@pytest.mark.parametrize(("who", "run", "key"), GROUPS.values(), ids=GROUPS.keys())
def test_which_processes_share_a_limit(who: Peer, run: bytes, key: str) -> None:
    assert group_of(who, run)[0] == key


def procfs(place: Path, *, cgroup: bytes, comm: bytes) -> Path:
    folder = place / str(os.getpid())
    folder.mkdir()
    (folder / "cgroup").write_bytes(cgroup)
    (folder / "comm").write_bytes(comm)
    (folder / "stat").write_text("1 (a ) b) S " + " ".join(str(field) for field in range(4, 53)))
    return place


def test_names_that_are_not_utf8_are_no_trouble(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    cgroup = b"0::/kubepods/pod" + POD.encode() + b"/" + C.encode() + b"/\xff\xfe\n"
    with here, there:
        found = peer_of(here, procfs(tmp_path, cgroup=cgroup, comm=b"\xff\x1b[2J\xfe\n"))
    os.close(found.pidfd)
    assert (found.pod, found.container) == (POD, C)
    assert found.command.isprintable()


def test_a_long_name_of_a_process_is_cut(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    with here, there:
        found = peer_of(here, procfs(tmp_path, cgroup=b"0::/\n", comm=b"x" * 10_000))
    os.close(found.pidfd)
    assert found.command == "x" * 64
    assert found.start == 22, "the number of the field, proc(5)"


def test_an_older_kernel_without_a_pidfd_for_peers_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "SO_PEERPIDFD", 9999)
    here, there = socket.socketpair()
    with here, there:
        found = peer_of(here)
    assert found.pid == os.getpid()
    assert not select.select([found.pidfd], [], [], 0)[0]
    os.close(found.pidfd)


@pytest.mark.parametrize("has_peer_pidfd", [True, False])
def test_a_process_that_has_ended_already_is_said_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_peer_pidfd: bool
) -> None:
    if not has_peer_pidfd:
        monkeypatch.setattr(identity, "SO_PEERPIDFD", 9999)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        program = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        ended = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "s")])
        assert ended.wait(60) == 0
        connection, _ = listening.accept()
        with connection, pytest.raises(IdentityError, match=f"process {ended.pid} ended while connecting"):
            peer_of(connection)


def test_a_process_that_cannot_be_looked_up_is_refused(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with here, there, pytest.raises(IdentityError, match="cannot read /proc of process"):
        peer_of(here, tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2
