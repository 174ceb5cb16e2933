"""What the cluster stories are told with: kubectl, pods, the scheduler's log and metrics."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cluster
from settings import BIN, KUBECONFIG, LOGS, NODE, SIM_DIR, TOOLS
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


__all__ = ["BIN", "KUBECONFIG", "LOGS", "NODE", "ROOT", "SIM_DIR", "TOOLS", "cluster", "wait_until"]

GIB = 1 << 30
SYSTEM = "nvshare-system"
IMAGE = "nvshare/nvshare:0.1.0"
WORKLOAD = "localhost/nvshare-test/workload:1"
LIMIT = "nvshare.com/gpu-memory-limit"
CORE_LIMIT = "nvshare.com/gpu-core-limit"
SLOT = "nvshare.com/gpu"
SIM_SCALE = 0.05
"""Real seconds per second that a kernel asks for."""

kubectl = cluster.kubectl


def apply(*items: dict[str, Any]) -> None:
    """Give objects to the API server."""
    kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)}))


def pod(name: str, *command: str, slots: int = 1, **more: Any) -> dict[str, Any]:
    """A pod that runs the workload. `annotations`, `env`, `image` and `security` as they are called in a manifest;
    `memory` is the limit of its host memory."""
    limits = {SLOT: slots} if slots else {}
    container = {
        "name": "main",
        "image": more.get("image", WORKLOAD),
        "imagePullPolicy": "Never",
        "command": list(command) or ["sleep", "infinity"],
        "env": [{"name": key, "value": value} for key, value in more.get("env", {}).items()],
        "resources": {"limits": limits | ({"memory": more["memory"]} if "memory" in more else {})},
        "securityContext": more.get("security", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": more.get("annotations", {}), "labels": {"test": "nvshare"}},
        "spec": {
            "restartPolicy": more.get("restart", "Never"),
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


@contextlib.contextmanager
def pods(*items: dict[str, Any]) -> Iterator[None]:
    """Pods that are ready inside the block and gone after it."""
    names = [item["metadata"]["name"] for item in items]
    apply(*items)
    try:
        kubectl("wait", "--for=condition=Ready", "--timeout=120s", *[f"pod/{name}" for name in names])
        yield
    finally:
        kubectl("delete", "pod", "--force", "--grace-period=0", "--wait=true", "--ignore-not-found", *names)


def execute(name: str, *command: str, code: int | None = 0, container: str = "main") -> str:
    """Run a command in a pod as `kubectl exec`; what it said, both ways. `code` None: any exit code will do."""
    line = [str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", "exec", name, "-c", container, "--", *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    said = [row for row in done.stderr.splitlines() if not row.startswith("command terminated with exit code")]
    text = done.stdout + "".join(f"{row}\n" for row in said)
    assert code is None or done.returncode == code, f"{' '.join(command)} in {name}: {done.returncode}\n{text}"
    return text


@contextlib.contextmanager
def background(name: str, *command: str) -> Iterator["Stream"]:
    """A command that goes on in a pod during the block; its lines are kept as they come."""
    line = [str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", "exec", name, "--", *command]
    log = LOGS / f"exec-{name}-{time.monotonic_ns()}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(line, stdout=output, stderr=output)
        try:
            yield Stream(log)
        finally:
            process.terminate()
            process.wait(10)
            execute(name, "sh", "-c", "for p in /proc/[0-9]*; do case $(cat $p/cmdline 2>/dev/null | tr '\\0' ' ')"
                    f" in '{' '.join(command)} ') kill -9 ${{p#/proc/}};; esac; done", code=None)  # fmt: skip


class Stream:
    """Lines that a command in a pod writes."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def until_count(self, count: int, seconds: float = 60) -> list[str]:
        """Wait for so many lines."""
        return self.until(lambda lines: len(lines) >= count, seconds)

    def until(self, condition: Callable[[list[str]], bool], seconds: float = 60) -> list[str]:
        """Wait for lines."""
        wait_until(lambda: condition(self.lines()), f"lines of {self._log.name}: {self.lines()[-3:]}", seconds)
        return self.lines()


def annotate(name: str, value: str | None, key: str = LIMIT) -> float:
    """`kubectl annotate`, or with None its removal; the machine's time when it returned."""
    kubectl("annotate", "pod", name, f"{key}-" if value is None else f"{key}={value}", "--overwrite")
    return time.time()


def system_pod(component: str) -> str:
    """The running pod of one of our DaemonSets."""
    names = kubectl(
        *("get", "pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/component={component}"),
        *("--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}"),
    ).split()
    assert len(names) == 1, names
    return names[0]


def scheduler_log() -> list[str]:
    return kubectl("logs", "-n", SYSTEM, system_pod("scheduler")).splitlines()


def count_log(pattern: str, since: int = 0) -> int:
    """Lines of the scheduler's log that match."""
    return sum(bool(re.search(pattern, line)) for line in scheduler_log()[since:])


def wait_for_log(pattern: str, seconds: float = 60, since: int = 0) -> str:
    """Wait for a line of the scheduler's log; the line."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [line for line in scheduler_log()[since:] if re.search(pattern, line)]
        return bool(found)

    wait_until(look, f"the scheduler logs {pattern!r}", seconds)
    return found[0]


def control(*args: str) -> str:
    """nvsharectl in the scheduler's pod."""
    return kubectl("exec", "-n", SYSTEM, system_pod("scheduler"), "--", "nvsharectl", *args)


def kubectl_nvshare(*args: str) -> str:
    """`kubectl nvshare`, found by kubectl itself on the PATH as its plugin."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KUBECTL": str(BIN / "kubectl"), "KUBECONFIG": str(KUBECONFIG)}
    command = [str(BIN / "kubectl"), "nvshare", *args]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def status() -> dict[str, Any]:
    return dict(json.loads(control("status", "-o", "json")))


def clients() -> list[dict[str, Any]]:
    """Every pod's client at every GPU; what else of this machine may have found the socket is not ours to count."""
    found = [client for gpu in status()["gpus"] for client in gpu["clients"]]
    return [client for client in found if client["group"].startswith("pod/")]


def metrics() -> dict[str, float]:
    """The scheduler's metrics, by name and labels."""
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
    python = "/opt/nvshare/bin/python"
    text = kubectl("exec", "-n", SYSTEM, system_pod("scheduler"), "--", python, "-c", script)
    rows = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def has_clients(count: int) -> bool:
    """Whether the scheduler answers and has so many; False while it is being restarted."""
    try:
        return len(clients()) == count
    except (AssertionError, RuntimeError):
        return False


def scheduler_pid() -> int:
    """The scheduler's pid on this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if len(words) > 1 and words[1].endswith(b"/nvshare-scheduler"):
                return int(path.parent.name)
    raise AssertionError("no nvshare-scheduler runs")


def resident_mb(pid: int) -> float:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


def allocatable() -> int:
    text = kubectl("get", "node", NODE, "-o", "jsonpath={.status.allocatable.nvshare\\.com/gpu}", check=False)
    return int(text or 0)


def events_on(name: str, reason: str) -> list[str]:
    """The messages of a pod's Events of one kind."""
    selector = f"involvedObject.name={name},reason={reason}"
    return kubectl("get", "events", f"--field-selector={selector}", "-o", "jsonpath={.items[*].message}").splitlines()
