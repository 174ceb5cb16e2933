"""Limits of GPU time by annotation on a real cluster: seen in what the pod gets done, on the simulated GPU."""

from collections.abc import Callable

import pytest

from e2e.kit import (
    CORE_LIMIT,
    SIM_SCALE,
    Stream,
    annotate,
    background,
    clients,
    control,
    events_on,
    execute,
    kubectl_nvshare,
    pod,
    pods,
    wait_until,
)

END = (
    "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in 'workload serve ') kill -9 ${p#/proc/};; esac; done"
)
SETTLING_S = 2
MEASURED_S = 10
KERNEL_S = 0.005
"""So long that a kernel's launch costs next to nothing, also on a busy machine: alone the pod uses the whole card."""
WHOLE_CARD = 1 / KERNEL_S
"""Kernels per second of a card that does nothing else."""


def limit_in_force() -> list[int]:
    return [client["core_limit_percent"] for client in clients()]


def becomes(percent: int) -> None:
    wait_until(lambda: set(limit_in_force()) == {percent}, f"the core limit is {percent} %")


def progress(working: Stream) -> list[tuple[float, int]]:
    """What `workload run` printed: seconds since its start, kernels finished."""
    rows = [line.split() for line in working.lines()]
    return [(float(row[0]), int(row[1])) for row in rows if len(row) == 2 and row[0][0].isdigit()]


def rate(working: Stream) -> float:
    """Kernels per second of the program's own clock, from now on."""
    begin = progress(working)[-1][0] + SETTLING_S
    working.until(lambda _: progress(working)[-1][0] >= begin + MEASURED_S, 120)
    rows = [row for row in progress(working) if row[0] >= begin]
    (start, before), (end, after) = rows[0], rows[-1]
    return (after - before) / (end - start)


def test_a_core_limit_is_changed_live_and_seen_in_what_the_pod_gets_done(figure: Callable[[str], None]) -> None:
    kernel_us = str(round(KERNEL_S / SIM_SCALE * 1e6))
    with pods(pod("capped")), background("capped", "workload", "run", "1000", "0", "1Gi", kernel_us) as working:
        working.until(lambda _: len(progress(working)) >= 5)
        free = rate(working)
        annotate("capped", "25", CORE_LIMIT)
        becomes(25)
        quarter = rate(working)
        annotate("capped", "a quarter", CORE_LIMIT)
        wait_until(lambda: bool(events_on("capped", "BadAnnotation")), "an Event on the pod", 60)
        assert "is not a whole number of percent from 1 to 100" in events_on("capped", "BadAnnotation")[0]
        assert limit_in_force() == [25], "the value before it stays in force"
        kubectl_nvshare("core-limit", "capped", "70")
        becomes(70)
        most = rate(working)
        kubectl_nvshare("core-limit", "capped", "none")
        becomes(0)
        again = rate(working)
    figure(
        f"kernels per second: {free:.0f} without a limit, {quarter:.0f} at 25 %, {most:.0f} at 70 %,"
        f" {again:.0f} without it again"
    )
    # On a busy machine each hand-over of the lock costs the program time that counts as held, so it may get much less.
    assert 0.1 * free < quarter < 1.1 * 0.25 * WHOLE_CARD
    assert 1.3 * quarter < most < 1.1 * 0.70 * WHOLE_CARD
    assert min(free, again) > most


def test_a_core_limit_of_the_specs_environment_can_only_be_lowered_from_inside() -> None:
    def in_force(*environment: str) -> list[int]:
        with background("by-environment", "env", *environment, "workload", "serve") as serving:
            serving.until_count(1)
            wait_until(lambda: len(clients()) == 1, "the process registers")
            found = limit_in_force()
            execute("by-environment", "sh", "-c", END, code=None)
        wait_until(lambda: not clients(), "the process has left")
        return found

    with pods(pod("by-environment", env={"NVSHARE_GPU_CORE_LIMIT": "40"})):
        assert in_force("A=1") == [40]
        assert in_force("-u", "NVSHARE_GPU_CORE_LIMIT") == [40]
        assert in_force("NVSHARE_GPU_CORE_LIMIT=90") == [40]
        assert in_force("NVSHARE_GPU_CORE_LIMIT=15") == [15]
        annotate("by-environment", "80", CORE_LIMIT)
        assert in_force("A=1") == [80], "the annotation counts more than the specification"


def test_an_operators_core_limit_is_refused_where_an_annotation_counts() -> None:
    with pods(pod("annotated", "workload", "serve", annotations={CORE_LIMIT: "30%"})):
        wait_until(lambda: limit_in_force() == [30], "the process registers, with its pod's limit")
        with pytest.raises(RuntimeError, match="has an annotation"):
            control("core-limit", "default/annotated", "50")
        annotate("annotated", None, CORE_LIMIT)
        becomes(0)
        assert "core limit 50 % of each GPU" in control("core-limit", "default/annotated", "50")
        becomes(50)
        assert execute("annotated", "workload", "ask", "launch") == "launched\n"
        control("core-limit", "default/annotated", "none")
        becomes(0)
