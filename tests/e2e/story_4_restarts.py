"""Everything that can be restarted is, while programs compute."""

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from e2e.kit import (
    GIB,
    KUBECONFIG,
    LIMIT,
    NODE,
    ROOT,
    SIM_DIR,
    SYSTEM,
    TOOLS,
    allocatable,
    annotate,
    background,
    clients,
    cluster,
    execute,
    has_clients,
    kubectl,
    pod,
    pods,
    scheduler_log,
    scheduler_pid,
    system_pod,
    wait_for_log,
    wait_until,
)
from e2e.story_3_turns import progress
from nvshare.simgpu.events import RECOVERED, inject_xid

KUBELET_SOCKET = Path("/var/lib/kubelet/device-plugins/kubelet.sock")


def test_a_kubelet_restart_brings_the_slots_back_and_they_stay(figure: Callable[[str], None]) -> None:
    with pods(pod("computes", "workload", "run", "1000", "0")):
        wait_until(lambda: has_clients(1), "the process registers")
        (before,) = clients()
        for how in (signal.SIGTERM, signal.SIGKILL):
            old, registered = identity(KUBELET_SOCKET), registrations()
            assert registered
            cluster.restart("kubelet", how=how)
            wait_until_replaced(KUBELET_SOCKET, old)
            began = time.monotonic()
            # Kubelet has forgotten us until we register: what it offered before does not count.
            wait_until_registered_again(registered)
            wait_until(lambda: allocatable() == 20, "all slots are offered", 60)
            took = time.monotonic() - began
            figure(f"kubelet restarted by {how.name}: all slots are offered {took:.1f} s after kubelet.sock")
            with pods(pod("next")):  # kubelet itself gives the new pod a slot
                assert allocatable() == 20
            assert len(list(KUBELET_SOCKET.parent.glob("nvshare-*.sock"))) == 1
        (after,) = clients()
        assert (after["id"], after["pid"]) == (before["id"], before["pid"])
        seen = len(kubectl("logs", "computes").splitlines())
        wait_until(lambda: len(kubectl("logs", "computes").splitlines()) > seen + 1, "it goes on computing")


def registrations() -> int:
    """How often the device plugin has registered with kubelet."""
    lines = kubectl("logs", "-n", SYSTEM, system_pod("device-plugin"), check=False).splitlines()
    return sum("Registered" in line for line in lines)


def wait_until_registered_again(before: int) -> None:
    wait_until(lambda: registrations() > before, "the plugin registers again", 60)


def wait_until_replaced(path: Path, old: tuple[int, int] | None) -> None:
    wait_until(lambda: identity(path) not in (None, old), f"another {path.name}", 60)


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a socket from its successor; None when there is none. A number alone may come again."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns


def test_a_gpu_in_trouble_takes_its_slots_away_and_running_pods_are_left_alone() -> None:
    with pods(pod("computes", "workload", "run", "1000", "0")):
        wait_until(lambda: has_clients(1), "the process registers")
        gpu = clients()[0]["gpu"]
        inject_xid(gpu, 79, directory=SIM_DIR / "state")
        try:
            wait_until(lambda: allocatable() == 10, "only the other GPU's slots are offered", 60)
            with pods(pod("elsewhere")):
                assert execute("elsewhere", "printenv", "NVIDIA_VISIBLE_DEVICES").strip() != gpu
            assert has_clients(1)
        finally:
            inject_xid(gpu, RECOVERED, directory=SIM_DIR / "state")
        wait_until(lambda: allocatable() == 20, "all slots are offered again", 60)


def test_the_api_servers_restart_keeps_limits_and_the_watch_goes_on() -> None:
    with pods(pod("outage", "workload", "serve", annotations={LIMIT: "1Gi"})):
        wait_until(lambda: bool(clients()), "the process registers")
        seen = len(scheduler_log())
        cluster.stop("kube-apiserver")
        cluster.start("kube-apiserver")
        cluster.wait_for("kube-apiserver", lambda: kubectl("get", "--raw", "/readyz", check=False) == "ok")
        wait_for_log("Cannot watch the pods", since=seen)
        assert execute("outage", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
        annotate("outage", "4Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 4 * GIB, "the limit reaches the process", 60)
        assert execute("outage", "workload", "ask", "alloc", "2Gi") == "Success (0)\n"


def test_a_killed_scheduler_is_not_noticed_by_a_program_that_computes() -> None:
    with pods(pod("goes-on", annotations={LIMIT: "2Gi"})):
        with background("goes-on", "workload", "run", "1000", "0", "1Gi") as stream:
            stream.until(lambda lines: len(lines) > 2)
            wait_until(lambda: has_clients(1), "only this one")
            (before,) = clients()
            kubectl("delete", "pod", "-n", SYSTEM, "--force", "--grace-period=0", system_pod("scheduler"))
            killed = len(stream.lines())
            stream.until(lambda lines: len(lines) > killed + 3, 60)
            kubectl("rollout", "status", "-n", SYSTEM, "daemonset/nvshare-scheduler", "--timeout=60s")
            wait_until(lambda: has_clients(1), "the process registers with the new scheduler", 60)
            (after,) = clients()
            assert (after["pid"], after["label"], after["limit_bytes"]) == (before["pid"], "default/goes-on", 2 * GIB)
            rows = progress(stream.lines())
            assert max(b[0] - a[0] for a, b in itertools.pairwise(rows)) < 3
            assert not any("error" in line for line in stream.lines())
        assert "OOM" in execute("goes-on", "workload", "alloc", "3Gi", code=1)


def test_a_scheduler_container_that_crashes_comes_back_in_place() -> None:
    with (
        pods(pod("crash-test", annotations={LIMIT: "2Gi"})),
        background("crash-test", "workload", "run", "1000", "0", "1Gi") as stream,
    ):
        stream.until(lambda lines: len(lines) > 2)
        first = scheduler_pid()
        subprocess.run(["kill", "-9", str(first)], check=True)
        wait_until(lambda: _running_scheduler() not in (None, first), "kubelet starts it again", 60)
        wait_until(lambda: has_clients(1), "the process registers again", 60)
        assert not any("error" in line for line in stream.lines())


def _running_scheduler() -> int | None:
    try:
        return scheduler_pid()
    except AssertionError:
        return None


def test_the_plugins_upgrade_leaves_running_pods_alone_and_replaces_the_library_whole() -> None:
    library = Path("/var/run/nvshare/lib/libnvshare.so")
    with pods(pod("upgraded")), background("upgraded", "workload", "run", "1000", "0") as stream:
        stream.until(lambda lines: len(lines) > 2)
        content = library.read_bytes()
        older = library.with_name("older")
        older.write_bytes(content + b"\0")
        older.chmod(0o755)
        # In the foreground: the pods are gone too. A plugin that is still ending would put its own library back.
        kubectl("delete", "daemonset", "-n", SYSTEM, "nvshare-device-plugin", "--cascade=foreground", "--timeout=60s")
        older.rename(library)  # what an older version's plugin had put there
        with library.open("rb") as mapped:  # open, as in a process that has it mapped
            kubectl("apply", "-f", str(ROOT / "deploy" / "manifests" / "device-plugin.yaml"))
            kubectl("rollout", "status", "-n", SYSTEM, "daemonset/nvshare-device-plugin", "--timeout=90s")
            wait_until(lambda: library.read_bytes() == content, "the library is replaced")
            assert os.fstat(mapped.fileno()).st_nlink == 0, "another file has its name"
            assert mapped.read() == content + b"\0", "the old file is as it was"
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots")
        seen = len(stream.lines())
        stream.until(lambda lines: len(lines) > seen + 2)
        assert "Success" in execute("upgraded", "workload", "alloc", "1Gi")


def test_helm_takes_over_and_an_uninstall_leaves_programs_running() -> None:
    def helm(*args: str) -> None:
        command = [str(TOOLS / "helm"), f"--kubeconfig={KUBECONFIG}", "-n", SYSTEM, *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr

    chart = str(ROOT / "deploy" / "chart")
    with pods(pod("stays", "workload", "run", "1000", "0")):
        wait_until(lambda: has_clients(1), "the process registers")
        try:
            helm("install", "nvshare", chart, "--take-ownership", "--wait", "--set", "devicePlugin.virtualDevices=3")
            wait_until(lambda: allocatable() == 6, "the node offers what the chart was told", 60)
            wait_until(lambda: has_clients(1), "the process is known to the new scheduler", 60)
            helm("uninstall", "nvshare", "--wait")
            wait_until(lambda: not kubectl("get", "pods", "-n", SYSTEM, "-o", "name"), "our pods are gone", 60)
            seen = len(kubectl("logs", "stays").splitlines())
            wait_until(lambda: len(kubectl("logs", "stays").splitlines()) > seen + 1, "the program goes on")
        finally:
            kubectl("apply", "-f", str(ROOT / "deploy" / "manifests"))
            for name in ("nvshare-scheduler", "nvshare-device-plugin"):
                kubectl("rollout", "status", "-n", SYSTEM, f"daemonset/{name}", "--timeout=90s")
            wait_until(lambda: allocatable() == 20, "the node offers 20 slots", 60)
        wait_until(lambda: has_clients(1), "the process registers again", 60)


def test_after_a_wiped_run_directory_the_next_container_start_is_shared() -> None:
    since_before = pod("wiped", "sh", "-c", "workload run 1000 0", restart="Always")
    with pods(since_before):
        wait_until(lambda: has_clients(1), "the process registers")
        (before,) = clients()
        # Not checked: the plugin may have put the library back before rm came to remove its directory.
        subprocess.run("rm -rf /var/run/nvshare/*", shell=True, check=False)
        subprocess.run(["kill", "-9", str(before["pid"])], check=True)
        wait_until(lambda: Path("/var/run/nvshare/lib/libnvshare.so").is_file(), "the plugin puts the library back", 60)
        wait_until(lambda: Path("/var/run/nvshare/scheduler.sock").is_socket(), "the scheduler's socket is back", 90)
        wait_until(lambda: has_clients(1) and clients()[0]["pid"] != before["pid"], "the next container's process", 90)


def test_a_container_that_started_before_us_on_an_empty_host_is_shared_from_its_next_start() -> None:
    manifests = [str(ROOT / "deploy" / "manifests" / f"{name}.yaml") for name in ("scheduler", "device-plugin")]
    with pods(pod("too-early", "workload", "run", "1000", "0", restart="Always")):
        wait_until(lambda: has_clients(1), "the process registers")
        pid = clients()[0]["pid"]
        for path in manifests:
            kubectl("delete", "-f", path, "--wait=true")
        try:
            wait_until(lambda: not kubectl("get", "pods", "-n", SYSTEM, "-o", "name"), "our pods are gone", 60)
            subprocess.run(["rm", "-rf", "/var/run/nvshare"], check=True)  # as a reboot does: it is not on disk
            subprocess.run(["kill", "-9", str(pid)], check=True)
            wait_until(lambda: restarts("too-early") == 1, "its container starts again, without the library", 60)
        finally:
            for path in manifests:
                kubectl("apply", "-f", path)
            for name in ("nvshare-scheduler", "nvshare-device-plugin"):
                kubectl("rollout", "status", "-n", SYSTEM, f"daemonset/{name}", "--timeout=90s")
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots")
        execute("too-early", "sh", "-c", "ls /usr/lib/nvshare/libnvshare.so")  # its directory is the very one we fill
        kill_main("too-early")
        wait_until(lambda: has_clients(1), "the next start is shared", 90)


def restarts(name: str) -> int:
    ready = "{.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.running.startedAt}"
    words = kubectl("get", "pod", name, "-o", f"jsonpath={ready}").split()
    return int(words[0]) if len(words) == 2 else 0


def kill_main(name: str) -> None:
    """End a pod's program from outside: inside, a container's first process cannot be killed."""
    uid = kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            if f"pod{uid}" in path.read_text() and b"workload" in path.with_name("cmdline").read_bytes():
                subprocess.run(["kill", "-9", path.parent.name], check=True)


def test_a_drained_node_forgets_its_clients_and_takes_pods_again() -> None:
    with pods(pod("drained", "workload", "serve")):
        wait_until(lambda: len(clients()) == 1, "the process registers")
        since = len(scheduler_log())
        kubectl("drain", NODE, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=60s")
        try:
            wait_until(lambda: not clients(), "its client has left")
            wait_for_log("Client .*left", since=since)
        finally:
            kubectl("uncordon", NODE)
    with pods(pod("after-drain", "workload", "serve")):
        wait_until(lambda: len(clients()) == 1, "the process registers")
