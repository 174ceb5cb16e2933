"""A real one-node Kubernetes cluster on this machine, as root: `cluster.py up | down | restart NAME`.

Kubernetes comes from build-kubernetes.sh; etcd and containerd are Debian's, or from build-runtime.sh for releases that
need newer ones. Each component is a child with a
log of its own; pids are kept in a file with the program's name, so that `down` ends what `up` started and nothing else.
Everything lives under one directory, except what kubelet hard-codes (/var/lib/kubelet) and one address on `lo`."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from components import PAUSE_IMAGE, command_lines, write_configuration
from images import import_image, pause_image
from pki import make as make_pki
from settings import BIN, CONTAINERD_SOCKET, KUBECONFIG, KUBELET_ROOT, LOGS, NODE, PKI, RUN, RUNTIME_BIN, SERVICE_IP

RUNC = Path("/usr/sbin/runc")
PIDS = RUN / "pids.json"
_READY_S = 90.0


def up(runtime: Path = RUNC) -> None:
    """Start everything and wait until the node is ready."""
    up_api_server(runtime)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    start("containerd")
    wait_for("containerd", CONTAINERD_SOCKET.exists)
    import_image(pause_image(PAUSE_IMAGE))
    for name in ("kube-controller-manager", "kube-scheduler", "kubelet"):
        start(name)
    wait_for("the node", lambda: "True" in node_ready())
    wait_for("the default service account", lambda: bool(kubectl("get", "sa", "default", "-o", "name", check=False)))


def up_api_server(runtime: Path = RUNC) -> None:
    """Start etcd and the API server only."""
    if PIDS.exists():
        down()
    for path in (RUN, LOGS):
        path.mkdir(parents=True, exist_ok=True)
    make_pki(PKI)
    write_configuration(runtime)
    _run("ip", "address", "replace", f"{SERVICE_IP}/32", "dev", "lo")
    for name in ("etcd", "kube-apiserver"):
        start(name)
    wait_for("kube-apiserver", lambda: kubectl("get", "--raw", "/readyz", check=False) == "ok")


def pid_of(name: str) -> int:
    """Of a component that runs."""
    return _pids()[name]


def start(name: str) -> None:
    """Start one component; its output is appended to its log."""
    log = (LOGS / f"{name}.log").open("ab")
    process = subprocess.Popen(
        command_lines()[name], stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
    )
    pids = _pids()
    pids[name] = process.pid
    PIDS.write_text(json.dumps(pids))


def stop(name: str, *, how: signal.Signals = signal.SIGTERM, seconds: float = 20) -> None:
    """End one component, by force if it does not go."""
    pids = _pids()
    pid = pids.pop(name, None)
    if pid is not None and _is_ours(pid, name):
        os.kill(pid, how)
        deadline = time.monotonic() + seconds
        while _is_ours(pid, name):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                deadline += seconds
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
    PIDS.write_text(json.dumps(pids))


def restart(name: str, *, how: signal.Signals = signal.SIGTERM) -> None:
    """Stop and start one component."""
    stop(name, how=how)
    start(name)


def down() -> None:
    """End every pod and component, and take away what they left on the machine; logs stay."""
    stop("kubelet")
    if "containerd" in _pids():
        _end_containers()
    for name in reversed(list(command_lines())):
        stop(name)
    _unmount_below(RUN, KUBELET_ROOT, Path("/run/netns"))
    for folder in ("etcd", "containerd", "cni", "pki"):
        shutil.rmtree(RUN / folder, ignore_errors=True)
    shutil.rmtree(KUBELET_ROOT, ignore_errors=True)
    subprocess.run(["ip", "address", "delete", f"{SERVICE_IP}/32", "dev", "lo"], capture_output=True, check=False)
    _remove_cgroups()
    PIDS.unlink(missing_ok=True)


def _end_containers() -> None:
    for task in ctr("tasks", "list", "-q").split():
        ctr("tasks", "kill", "-s", "SIGKILL", "-a", task)
        ctr("tasks", "delete", "-f", task)
    for container in ctr("containers", "list", "-q").split():
        ctr("containers", "delete", container)
    for name in sorted(path.name for path in Path("/run/netns").glob("cni-*")):
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _unmount_below(*roots: Path) -> None:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    points = [line.split()[1].replace("\\040", " ") for line in lines]
    for point in reversed(points):
        if any(Path(point).is_relative_to(root) for root in roots):
            subprocess.run(["umount", "-l", point], capture_output=True, check=False)


def _remove_cgroups() -> None:
    for top in Path("/sys/fs/cgroup").glob("*/kubepods"):
        for folder, _, _ in sorted(os.walk(top), reverse=True):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def kubectl(*args: str, check: bool = True, text: str | None = None) -> str:
    """Run kubectl as the cluster's administrator; its output."""
    command = [str(BIN / "kubectl"), f"--kubeconfig={KUBECONFIG}", *args]
    done = subprocess.run(command, capture_output=True, text=True, input=text, timeout=180, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
    return done.stdout.strip() if done.returncode == 0 else ""


def ctr(*args: str) -> str:
    """Run containerd's own tool in the namespace that kubelet uses."""
    command = [str(RUNTIME_BIN / "ctr"), "--address", str(CONTAINERD_SOCKET), "-n", "k8s.io", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def node_ready() -> str:
    """`True` when kubelet says so."""
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", NODE, "-o", f"jsonpath={path}", check=False)


def wait_for(what: str, condition: Callable[[], bool], seconds: float = _READY_S) -> None:
    """Wait for a component to come up; the API has nothing to wait on before it is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"cluster: {what} did not come up in {seconds:.0f} s; see the logs in {LOGS}")
        time.sleep(0.1)


def _pids() -> dict[str, int]:
    return dict(json.loads(PIDS.read_text())) if PIDS.exists() else {}


def _is_ours(pid: int, name: str) -> bool:
    """Whether the pid is still the program we started, and not another that got its number."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return status != "Z" and name in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
    return False


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> None:
    """The command line."""
    match sys.argv[1:]:
        case ["up", *runtime]:
            began = time.monotonic()
            up(*map(Path, runtime))
            print(f"cluster: up in {time.monotonic() - began:.1f} s; KUBECONFIG={KUBECONFIG}")
        case ["down"]:
            down()
        case ["restart", name]:
            restart(name)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
