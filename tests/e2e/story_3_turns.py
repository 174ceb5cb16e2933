"""Scenario 6 of docs/kubernetes.md, waiting, and thirty pods on one card."""

import json

from e2e.kit import (
    SLOT,
    SYSTEM,
    allocatable,
    background,
    clients,
    control,
    count_log,
    events_on,
    execute,
    kubectl,
    pod,
    pods,
    scheduler_log,
    status,
    wait_until,
)


def progress(lines: list[str]) -> list[tuple[float, int]]:
    """What `workload run` printed: seconds since its start, kernels finished."""
    rows = [line.split() for line in lines]
    return [(float(row[0]), int(row[1])) for row in rows if len(row) == 2 and row[0][0].isdigit()]


def test_scenario_6_two_pods_take_turns_on_the_shared_gpu_and_never_elsewhere() -> None:
    first, second = (gpu["uuid"] for gpu in status()["gpus"])
    with pods(pod("pod-b", slots=2)):
        visible = execute("pod-b", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
        assert visible == f"{first},{second}"
        with pods(pod("pod-a")):
            only = execute("pod-a", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
            on_b = visible.split(",").index(only)
            other = second if only == first else first
            before = len(scheduler_log())
            control("set-tq", "1")
            try:
                with (
                    background("pod-a", "workload", "run", "1000", "0", "10Gi") as a,
                    background("pod-b", "workload", "run", "1000", str(on_b), "10Gi") as b,
                    background("pod-b", "workload", "run", "1000", str(1 - on_b), "10Gi") as alone,
                ):
                    wait_until(lambda: len(clients()) >= 3, "three clients")
                    turns = rf"on {only} taken back \(quantum\)"
                    wait_until(lambda: count_log(turns, before) >= 8, "eight turns of a second on the shared GPU", 90)
                    seats = {gpu["uuid"]: gpu for gpu in status()["gpus"]}
                    assert seats[only]["running"] + seats[only]["waiting"] == 2
                    rows = {name: progress(stream.lines()) for name, stream in (("a", a), ("b", b), ("alone", alone))}
                    held_back = count_log(f"Client .* waits for {other}|on {other} taken back", before)
            finally:
                control("set-mode", "balanced")
    for name in ("a", "b"):
        assert rows[name][-1][1] > 50, f"{name} hardly ran: {rows[name]}"
    assert held_back == 0, "held back on a GPU of its own"
    assert rows["alone"][-1][1] > max(rows[name][-1][1] for name in ("a", "b"))


def test_a_long_wait_is_told_on_the_pod_and_to_its_program() -> None:
    with pods(pod("holder"), pod("waiter")):
        same = execute("holder", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES") == execute(
            "waiter", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"
        )
        assert not same  # spread: the least loaded GPU
        with pods(pod("third")):
            gpu = execute("third", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
            rival = "holder" if execute("holder", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES") == gpu else "waiter"
            control("set-tq", "600")
            try:
                with background(rival, "workload", "run", "1000", "0", "12Gi") as holding:
                    holding.until(lambda lines: len(lines) >= 3)
                    with background("third", "workload", "run", "1000", "0", "12Gi") as waiting:
                        wait_until(lambda: bool(events_on("third", "WaitingForGPU")), "an Event on the pod", 60)
                        (message,) = events_on("third", "WaitingForGPU")
                        assert f"default/{rival}" in message
                        assert gpu.strip() in message
                        assert any("wait" in line.lower() for line in waiting.lines()), waiting.lines()
            finally:
                control("set-mode", "balanced")


def test_thirty_pods_share_one_card() -> None:
    kubectl(
        "set", "env", "-n", SYSTEM, "daemonset/nvshare-device-plugin", "NVSHARE_GPUS=0", "NVSHARE_VIRTUAL_DEVICES=30"
    )
    try:
        kubectl("rollout", "status", "-n", SYSTEM, "daemonset/nvshare-device-plugin", "--timeout=90s")
        wait_until(lambda: allocatable() == 30, "the node offers 30 slots of one card", 60)
        names = [f"crowd-{number}" for number in range(30)]
        with pods(*[pod(name, "workload", "serve") for name in names]):
            wait_until(lambda: len(clients()) == 30, "thirty clients", 60)
            assert {client["label"] for client in clients()} == {f"default/{name}" for name in names}
            assert len({client["gpu"] for client in clients()}) == 1
            assert execute("crowd-7", "workload", "ask", "alloc", "100Mi") == "Success (0)\n"
            thirty_first = pod("one-too-many")
            kubectl("apply", "-f", "-", text=json.dumps(thirty_first))
            try:
                wait_until(lambda: bool(events_on("one-too-many", "FailedScheduling")), "no slot is left")
                assert f"Insufficient {SLOT}" in events_on("one-too-many", "FailedScheduling")[0]
            finally:
                kubectl("delete", "pod", "one-too-many", "--force", "--grace-period=0")
        wait_until(lambda: not clients(), "all have left")
    finally:
        kubectl(
            "set",
            "env",
            "-n",
            SYSTEM,
            "daemonset/nvshare-device-plugin",
            "NVSHARE_GPUS=all",
            "NVSHARE_VIRTUAL_DEVICES=10",
        )
        kubectl("rollout", "status", "-n", SYSTEM, "daemonset/nvshare-device-plugin", "--timeout=90s")
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots again", 60)
