"""Who a peer is, from the texts that kernels and container runtimes write into /proc/PID/cgroup."""

import os
import select
import socket
from pathlib import Path

import pytest

from nvshare.scheduler import identity
from nvshare.scheduler.identity import IdentityError, Peer, Place, group_of, peer_of, place_of, printable

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


PLACES = {
    # containerd and Docker under kubelet
    "containerd, cgroupfs, v2": (v2(f"/kubepods/besteffort/pod{POD}/{C}"), Place(POD, C)),
    "containerd, cgroupfs, guaranteed": (v2(f"/kubepods/pod{POD}/{C}"), Place(POD, C)),
    "containerd, systemd, v2": (
        v2(f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        Place(POD, C),
    ),
    "containerd, systemd, guaranteed": (
        v2(f"/kubepods.slice/kubepods-pod{_POD}.slice/cri-containerd-{C}.scope"),
        Place(POD, C),
    ),
    "containerd, cgroupfs, v1": (v1(f"/kubepods/burstable/pod{POD}/{C}"), Place(POD, C)),
    "containerd's own driver cgroupfs while kubelet's is systemd": (
        v2(f"/system.slice/containerd.service/kubepods-burstable-pod{_POD}.slice:cri-containerd:{C}"),
        Place(POD, C),
    ),
    "the same at the top": (v1(f"/kubepods-besteffort-pod{_POD}.slice:cri-containerd:{C}"), Place(POD, C)),
    "dockershim": (
        v1(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/docker-{C}.scope"),
        Place(POD, C),
    ),
    # CRI-O
    "CRI-O, systemd": (
        v2(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/crio-{C}.scope"),
        Place(POD, C),
    ),
    "CRI-O with a container below its scope": (
        v2(f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{_POD}.slice/crio-{C}.scope/container"),
        Place(POD, C),
    ),
    "CRI-O, cgroupfs": (v1(f"/kubepods/besteffort/pod{POD}/crio-{C}"), Place(POD, C)),
    # both hierarchies: the v1 lines count
    "hybrid": (v1(f"/kubepods/besteffort/pod{POD}/{C}") + "0::/system.slice/containerd.service\n", Place(POD, C)),
    "hybrid with another's UID in the unified line": (
        v1(f"/kubepods/pod{POD}/{C}") + v2(f"/kubepods/pod{OTHER}/{D}"),
        Place(POD, C),
    ),
    "hybrid with v1 controllers empty": (v1("/") + v2(f"/kubepods/pod{POD}/{C}"), Place(POD, C)),
    # kubelet in a place of its own
    "kubelet with a cgroup root": (v2(f"/nodes/kubepods/burstable/pod{POD}/{C}"), Place(POD, C)),
    "a node that is itself a container": (
        v2(
            f"/system.slice/docker-{D}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{_POD}.slice/cri-containerd-{C}.scope"
        ),
        Place(POD, C),
    ),
    "a static pod": (v2(f"/kubepods/burstable/pod{STATIC}/{C}"), Place(STATIC, C)),
    # seen from a private cgroup namespace
    "a neighbour of the same class": (v2(f"/../../pod{POD}/{C}"), Place(POD, C)),
    "a neighbour of another class": (v2(f"/../../../burstable/pod{POD}/{C}"), Place(POD, C)),
    "a neighbour, systemd": (
        v2(f"/../../kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        Place(POD, C),
    ),
    "a neighbour, systemd, of another class": (
        v2(f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{_POD}.slice/cri-containerd-{C}.scope"),
        Place(POD, C),
    ),
    # a pod with cgroups of its own making
    "nested cgroups that carry another pod's UID": (
        v2(f"/kubepods/besteffort/pod{POD}/{C}/kubepods/pod{OTHER}/{D}"),
        Place(POD, C),
    ),
    "nested, systemd": (
        v2(
            f"/kubepods.slice/kubepods-pod{_POD}.slice/cri-containerd-{C}.scope/kubepods.slice/"
            f"kubepods-pod{_OTHER}.slice/cri-containerd-{D}.scope"
        ),
        Place(POD, C),
    ),
    "nested, with line breaks that only Python knows": (
        v2(f"/kubepods/pod{POD}/{C}/x\x0c0::/kubepods/pod{OTHER}/{D}"),
        Place(POD, C),
    ),
    "nested, with colons": (v2(f"/kubepods/pod{POD}/{C}/x:0::/kubepods/pod{OTHER}/{D}"), Place(POD, C)),
    "a pod's name without kubelet's place above it": (v2(f"/system.slice/pod{OTHER}/{C}"), Place(None, C)),
    "a user's own cgroups": (
        v2(f"/user.slice/user-1000.slice/user@1000.service/kubepods/pod{OTHER}/{C}"),
        Place(None, C),
    ),
    "a user's own cgroups from a private namespace": (
        v2(f"/../../../user.slice/user-1000.slice/user@1000.service/kubepods/pod{OTHER}/{C}"),
        Place(None, C),
    ),
    # containers without Kubernetes
    "Docker, cgroupfs": (v1(f"/docker/{C}"), Place(None, C)),
    "Docker, systemd": (v2(f"/system.slice/docker-{C}.scope"), Place(None, C)),
    "Docker in Docker": (v2(f"/docker/{C}/docker/{D}"), Place(None, C)),
    "podman": (v2(f"/machine.slice/libpod-{C}.scope/container"), Place(None, C)),
    "podman, rootless": (
        v2(f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{C}.scope/container"),
        Place(None, C),
    ),
    # the host
    "a shell": (v2("/user.slice/user-1000.slice/session-2.scope"), Place()),
    "a service": (v2("/system.slice/cron.service"), Place()),
    "the root": (v2("/"), Place()),
    "no cgroups": ("", Place()),
    "not the text of a cgroup file": ("\0\n::::\n:\nx", Place()),
    "a short hex name is no container": (v2("/docker/abcdef"), Place()),
}


@pytest.mark.parametrize(("text", "place"), PLACES.values(), ids=PLACES.keys())
def test_a_process_is_placed_by_its_cgroup(text: str, place: Place) -> None:
    assert place_of(text) == place


def peer(*, pod: str | None = None, container: str | None = None) -> Peer:
    return Peer(pid=7, uid=1000, pidfd=-1, pod=pod, container=container, command="python")


RUN = bytes(range(16))
GROUPS = {
    "a pod": (peer(pod=POD, container=C), bytes(16), f"pod/{POD}"),
    "a pod, whatever run it says it is": (peer(pod=POD, container=C), RUN, f"pod/{POD}"),
    "a container": (peer(container=C), RUN, f"container/{C}"),
    "one nvshare run of a user": (peer(), RUN, f"run/1000-{RUN.hex()}"),
    "a process alone": (peer(), bytes(16), "process/7"),
}


@pytest.mark.parametrize(("who", "run", "key"), GROUPS.values(), ids=GROUPS.keys())
def test_who_shares_a_limit(who: Peer, run: bytes, key: str) -> None:
    assert group_of(who, run)[0] == key


@pytest.mark.parametrize("text", ["\x1b[2J\x1b]0;owned\a", "two\nlines", "\u202eright to left", "a\u2028b", "nul\0"])
def test_names_from_outside_lose_what_a_terminal_would_obey(text: str) -> None:
    assert printable(text).isprintable()


def test_names_from_outside_have_a_bounded_length() -> None:
    assert len(printable("x" * 10_000)) == 64


def procfs(place: Path, *, cgroup: bytes, comm: bytes) -> Path:
    folder = place / str(os.getpid())
    folder.mkdir()
    (folder / "cgroup").write_bytes(cgroup)
    (folder / "comm").write_bytes(comm)
    return place


def test_names_that_are_not_utf8_are_no_trouble(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    cgroup = b"0::/kubepods/pod" + POD.encode() + b"/" + C.encode() + b"/\xff\xfe\n"
    with here, there:
        found = peer_of(here, procfs(tmp_path, cgroup=cgroup, comm=b"\xff\x1b[2J\xfe\n"))
    os.close(found.pidfd)
    assert (found.pod, found.container) == (POD, C)
    assert found.command.isprintable()


def test_an_older_kernel_without_a_pidfd_for_peers_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "SO_PEERPIDFD", 9999)
    here, there = socket.socketpair()
    with here, there:
        found = peer_of(here)
    assert found.pid == os.getpid()
    assert not select.select([found.pidfd], [], [], 0)[0]
    os.close(found.pidfd)


def test_a_process_that_cannot_be_looked_up_is_refused(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with here, there, pytest.raises(IdentityError, match="cannot be looked up"):
        peer_of(here, tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2
