"""What scheduler, device plugin and DRA driver are allowed to do to the machine: the systemd units and the pods.

The pods are checked against the Pod Security Standard `restricted` (kubernetes.io/docs/concepts/security). Each control
that a pod does not meet is listed with the reason, and a listed one that it does meet fails too."""

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nvshare.scheduler.clients.connection_admission import ConnectionAdmission

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
sys.path.insert(0, str(DEPLOY))

import render  # noqa: E402 - from deploy/
from support.fixtures import StartDaemon  # noqa: E402
from support.waiting import wait_until  # noqa: E402

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")

MAX_EXPOSED = {"nvshare-scheduler.service": 2.5, "nvshare-scheduler-user.service": 6.5}
"""systemd-analyze's figure from 0 (nothing is exposed) to 10. What is left: root, the network, /proc of all users.
A unit of a user's own manager has no capabilities to drop, and its file system and devices are those of the user."""

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HOST_DIRECTORIES = "sockets, the library and kubelet's socket are shared through directories of the host"
ROOT_USER = "these directories belong to root"
EXCEPTIONS: dict[str, dict[str, str]] = {
    "nvshare-scheduler": {
        "host namespaces": "clients are identified by pid, and a pid of another namespace is 0",
        "volume types": HOST_DIRECTORIES,
        "non-root user": ROOT_USER,
    },
    "nvshare-device-plugin": {
        "volume types": HOST_DIRECTORIES,
        "non-root user": ROOT_USER,
    },
    "nvshare-dra-driver": {
        "volume types": HOST_DIRECTORIES,
        "non-root user": ROOT_USER,
    },
}

ALLOWED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """The controls of the standard `restricted` that a pod's spec does not meet."""
    if any(pod.get(name) for name in ("hostPID", "hostIPC", "hostNetwork")):
        yield "host namespaces"
    if any(set(volume) - {"name"} - ALLOWED_VOLUMES for volume in pod.get("volumes", [])):
        yield "volume types"
    if pod.get("securityContext", {}).get("sysctls"):
        yield "sysctls"
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    for name, is_met in CONTROLS.items():
        if not all(is_met(one, one.get("securityContext", {})) for one in containers):
            yield name


CONTROLS: dict[str, Any] = {
    "privileged": lambda one, context: not context.get("privileged"),
    "privilege escalation": lambda one, context: context.get("allowPrivilegeEscalation") is False,
    "capabilities": lambda one, context: (
        context.get("capabilities", {}).get("drop") == ["ALL"]
        and set(context["capabilities"].get("add", [])) <= {"NET_BIND_SERVICE"}
    ),
    "seccomp": lambda one, context: context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
    "non-root user": lambda one, context: context.get("runAsNonRoot") is True and context.get("runAsUser") != 0,
    "host ports": lambda one, context: not any(port.get("hostPort") for port in one.get("ports", [])),
    "/proc mount": lambda one, context: context.get("procMount", "Default") == "Default",
    "SELinux": lambda one, context: "seLinuxOptions" not in context,
    "Windows host process": lambda one, context: not context.get("windowsOptions", {}).get("hostProcess"),
}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(render.MANIFESTS.rglob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text()):
            if item and item["kind"] == "DaemonSet":
                yield item["metadata"]["name"], item["spec"]["template"]["spec"]


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_meets_the_restricted_standard_except_where_it_cannot(name: str, pod: dict[str, Any]) -> None:
    assert set(violations(pod)) == set(EXCEPTIONS[name])


@pytest.mark.parametrize(("name", "pod"), list(pods()), ids=lambda value: value if isinstance(value, str) else "")
def test_a_pod_has_a_read_only_root_and_a_memory_limit(name: str, pod: dict[str, Any]) -> None:
    for container in pod["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize(("clients", "limit"), [(4096, 65_536), (100_000, 200_192)])
def test_the_scheduler_limits_its_own_descriptors_where_a_pod_cannot(
    monkeypatch: pytest.MonkeyPatch, clients: int, limit: int
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 1 << 30))
    monkeypatch.setattr(resource, "setrlimit", lambda which, both: limits.append(both))
    ConnectionAdmission(max_connections=clients, max_per_account=1)
    assert limits == [(limit, limit)]


def test_every_pod_of_the_chart_is_checked() -> None:
    assert sorted(name for name, _ in pods()) == sorted(EXCEPTIONS)


def test_the_check_finds_what_is_not_restricted() -> None:
    open_pod = {"hostNetwork": True, "volumes": [{"name": "x", "hostPath": {}}], "containers": [{"name": "x"}]}
    found = set(violations(open_pod))
    assert {"host namespaces", "volume types", "capabilities", "seccomp", "privilege escalation"} <= found


def _systemd_version() -> int:
    if shutil.which("systemd-analyze") is None:
        return 0
    said = subprocess.run(["systemd-analyze", "--version"], capture_output=True, text=True, timeout=60, check=False)
    match = re.search(r"systemd (\d+)", said.stdout)
    return int(match[1]) if match else 0


@pytest.mark.skipif(_systemd_version() < 250, reason="needs systemd-analyze 250 (security --offline)")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: str(unit.name))
def test_a_unit_exposes_little(unit: Path) -> None:
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={int(MAX_EXPOSED[unit.name] * 10)}",
            "--no-pager",
            str(unit),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_units_bound_memory_descriptors_tasks_and_system_calls() -> None:
    for unit in UNITS:
        settings = dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))
        assert settings["NoNewPrivileges"] == "yes"
        assert "SystemCallFilter=@system-service\n" in unit.read_text()
        assert {"MemoryMax", "LimitNOFILE", "TasksMax"} <= set(settings)


def _system_calls(name: str) -> set[str]:
    """The members of one of systemd's sets."""
    said = subprocess.run(
        ["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, timeout=60, check=True
    )
    found: set[str] = set()
    for line in said.stdout.splitlines()[1:]:
        member = line.strip()
        if member.startswith("@"):
            found |= _system_calls(member)
        elif member and not member.startswith("#"):
            found.add(member)
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.skipif(_systemd_version() < 250, reason="needs systemd-analyze 250")
def test_the_units_filter_allows_every_system_call_that_the_scheduler_makes(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    # What a process does before it is the scheduler (execve) is done before systemd's filter, or allowed by it.
    daemon = start_daemon("--http", "127.0.0.1:0", wrapper=("strace", "-D", "-f", "-o", str(trace)))
    with daemon.client().register(name=b"traced") as client:
        client.release(client.take_lock())
        daemon.ctl("limit", "traced", "4Gi")
        daemon.metrics_text()
    assert daemon.stop() == 0
    wait_until(lambda: "exit_group(0)" in trace.read_text(), "the end of the trace")
    made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE))
    assert {"epoll_pwait", "accept4"} & made
    allowed = _system_calls("@system-service") - _system_calls("@privileged")
    assert made - allowed == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose capabilities are taken away")
def test_the_scheduler_works_without_any_capability(start_daemon: StartDaemon) -> None:
    bare = ("setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all")
    daemon = start_daemon("--http", "127.0.0.1:0", wrapper=bare)
    assert "CapEff:\t0000000000000000" in Path(f"/proc/{daemon.pid}/status").read_text()
    with daemon.client().register(name=b"limited") as client:
        client.take_lock()
        daemon.ctl("limit", "limited", "4Gi")
    assert daemon.stop() == 0
    assert "ermission" not in daemon.log.text
