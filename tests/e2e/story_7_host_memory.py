"""A pod whose memory limit is too small for its GPU memory: another one waits instead of the first being killed."""

import contextlib
import re
from collections.abc import Iterator

from e2e.kit import GIB, SYSTEM, background, clients, control, events_on, execute, kubectl, pod, pods, wait_until

MIB = 1 << 20
SCHEDULER = "daemonset/nvshare-scheduler"


def set_scheduler(variable: str) -> None:
    kubectl("set", "env", "-n", SYSTEM, SCHEDULER, variable)
    kubectl("rollout", "status", "-n", SYSTEM, SCHEDULER, "--timeout=90s")


@contextlib.contextmanager
def counted_host_memory() -> Iterator[None]:
    """The scheduler counts host memory. It has to be told to: NVIDIA's driver is not loaded here."""
    set_scheduler("NVSHARE_HOST_MEMORY=on")
    try:
        yield
    finally:
        set_scheduler("NVSHARE_HOST_MEMORY-")


def gpu_of(name: str) -> str:
    return execute(name, "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()


def states() -> dict[str, str]:
    return {client["label"]: client["state"] for client in clients()}


def test_a_pod_with_too_little_host_memory_is_not_evicted_and_an_event_says_what_to_set() -> None:
    with (
        counted_host_memory(),
        pods(pod("one", memory="1Gi"), pod("two", memory="1Gi")),
        pods(pod("waits", "workload", "serve")),
        contextlib.ExitStack() as holder,
    ):
        small = "one" if gpu_of("one") == gpu_of("waits") else "two"
        wait_until(lambda: "default/waits" in states(), "the process registers")
        assert execute("waits", "workload", "ask", "alloc", "9Gi") == "Success (0)\n"
        holding = holder.enter_context(background(small, "workload", "run", "1000", "0", "12Gi"))
        holding.until(lambda lines: len(lines) >= 3)
        wait_until(lambda: bool(events_on(small, "HostMemoryTooSmall")), "an Event on the pod", 60)
        (message,) = events_on(small, "HostMemoryTooSmall")
        found = re.search(r"Set its memory limit to at least (\d+)Mi", message)
        assert found is not None, message
        assert 12 * GIB < int(found[1]) * MIB < 14 * GIB
        with background("waits", "workload", "ask", "launch") as waiting:
            wait_until(lambda: states().get("default/waits") == "blocked", "the other waits")
            assert states()[f"default/{small}"] == "running"
            assert "the host has no room for" in control("status")
            holder.close()  # Its program ends.
            waiting.until(lambda lines: "launched" in lines)
