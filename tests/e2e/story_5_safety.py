"""As root inside a pod: each attempt to get at others or to lift the own limit is made, and each fails."""

import json
from pathlib import Path

from e2e.dra import MANIFESTS, devices, is_refused, needs_shared_claims
from e2e.kit import (
    GIB,
    IMAGE,
    LIMIT,
    SYSTEM,
    allocatable,
    clients,
    events_on,
    execute,
    kubectl,
    metrics,
    pod,
    pods,
    status,
    wait_until,
)


def test_the_operators_socket_is_out_of_reach() -> None:
    with pods(pod("intruder")):
        assert "No such file" in execute("intruder", "ls", "/run/nvshare-operator", code=2)
        found = execute("intruder", "sh", "-c", "find / -xdev -name 'control.sock*' 2>/dev/null; ls /var/run/nvshare")
        assert "control.sock" not in found


def test_the_clients_socket_cannot_be_replaced() -> None:
    with pods(pod("intruder")):
        for attempt in ("rm /var/run/nvshare/scheduler.sock", "mv /var/run/nvshare/scheduler.sock /var/run/nvshare/x",
                        "touch /var/run/nvshare/evil", "mkdir /var/run/nvshare/lib/evil"):  # fmt: skip
            assert "Read-only file system" in execute("intruder", "sh", "-c", attempt, code=1)
        remount = execute("intruder", "sh", "-c", "mount -o remount,rw /var/run/nvshare 2>&1 || echo refused")
        assert "refused" in remount


def test_the_library_cannot_be_overwritten() -> None:
    with pods(pod("intruder")):
        for attempt in ("echo x > /usr/lib/nvshare/libnvshare.so", "rm /usr/lib/nvshare/libnvshare.so"):
            assert "Read-only file system" in execute("intruder", "sh", "-c", attempt, code=None)
        assert "Success" in execute("intruder", "workload", "alloc", "1Gi")


def test_a_cgroup_named_after_another_pod_does_not_change_who_one_is() -> None:
    with pods(
        pod("victim", annotations={LIMIT: "8Gi"}),
        pod("liar", annotations={LIMIT: "1Gi"}, security={"privileged": True}),
    ):
        uid = kubectl("get", "pod", "victim", "-o", "jsonpath={.metadata.uid}")
        script = f"""
            for controller in memory devices pids cpu systemd unified; do
                nested=/sys/fs/cgroup/$controller/kubepods/pod{uid}
                mkdir -p $nested 2>/dev/null && echo $$ > $nested/cgroup.procs && echo moved $controller
            done
            cat /proc/self/cgroup
            exec workload alloc 2Gi"""
        text = execute("liar", "sh", "-c", script, code=1)
        assert "moved memory" in text, text
        assert f"pod{uid}" in text, text
        assert "OOM (2)" in text, text


def test_frames_of_ones_own_cannot_lift_the_limit_or_give_orders() -> None:
    with pods(pod("forger", image=IMAGE, annotations={LIMIT: "1Gi"})):
        gpu = execute("forger", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
        script = (Path(__file__).parent / "forgeries.py").read_text()
        quantum = [one["quantum_seconds"] for one in status()["gpus"]]
        python = ["exec", "-i", "forger", "--", "env", "-u", "LD_PRELOAD", "/opt/nvshare/bin/python", "-", gpu]
        came_of_it = json.loads(kubectl(*python, text=script))
        lifted = came_of_it.pop("lifted")
        assert lifted["limits"], "the scheduler never told the forger its limit"
        assert set(lifted["limits"]) == {GIB}
        assert all(budget <= GIB for budget in lifted["budgets"]), lifted
        assert came_of_it == {"set_tq": True, "update_limit": True, "lock_ok": True, "rubbish": True}
        assert [one["quantum_seconds"] for one in status()["gpus"]] == quantum


def test_the_service_account_may_do_no_more_than_it_must() -> None:
    account = f"system:serviceaccount:{SYSTEM}:nvshare-scheduler"

    def may(*what: str) -> bool:
        return kubectl("auth", "can-i", f"--as={account}", *what, check=False) == "yes"

    assert may("list", "pods", "-A")
    assert may("watch", "pods", "-A")
    assert may("create", "events", "-n", "default")
    for forbidden in (("update", "pods"), ("patch", "pods"), ("delete", "pods"), ("create", "pods"), ("get", "secrets"),
                      ("list", "nodes"), ("create", "pods/exec"), ("delete", "events")):  # fmt: skip
        assert not may(*forbidden, "-A"), forbidden


def test_our_pods_have_no_capabilities_and_nothing_writable_but_their_directories() -> None:
    answer = json.loads(kubectl("get", "pods", "-n", SYSTEM, "-o", "json"))
    assert len(answer["items"]) == 2
    for item in answer["items"]:
        for container in item["spec"]["containers"]:
            context = container["securityContext"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert not context.get("privileged")


@needs_shared_claims
def test_the_dra_driver_does_not_offer_what_the_device_plugin_offers() -> None:
    kubectl("apply", "-f", str(MANIFESTS / "dra"))
    try:
        wait_until(lambda: is_refused("dra-driver", "nvshare-device-plugin"), "the driver names the remedy", 60)
        assert devices() == []
        assert allocatable() == 20
    finally:
        kubectl("delete", "-f", str(MANIFESTS / "dra"), "--wait=true")
        driver_pods = ("get", "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=dra-driver", "-o", "name")
        wait_until(lambda: not kubectl(*driver_pods), "the driver has ended", 60)


def test_a_process_that_drops_the_library_is_seen_and_told() -> None:
    unprivileged = {"capabilities": {"drop": ["ALL"]}}
    with pods(pod("escapes", "env", "-u", "LD_PRELOAD", "workload", "serve", security=unprivileged)):
        assert execute("escapes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"
        assert not clients()
        wait_until(lambda: bool(events_on("escapes", "NotShared")), "an Event on the pod", 60)
        assert "LD_PRELOAD" in events_on("escapes", "NotShared")[0]
        wait_until(lambda: max(gpu["foreign_memory_bytes"] for gpu in status()["gpus"]) >= GIB, "its memory is counted")
        assert any("foreign" in name and value >= GIB for name, value in metrics().items())
