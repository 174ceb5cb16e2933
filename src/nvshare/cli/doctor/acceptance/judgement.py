"""What a check found, judged by what was predicted. Pure: values in, rows out.

`ok`: as predicted. `differs`: it works, but not as predicted. `failed`: it does not work. `skipped`: not tried."""

from collections.abc import Callable, Iterable

from nvshare.cli.doctor.acceptance import prediction
from nvshare.cli.doctor.acceptance.prediction import Range
from nvshare.cli.doctor.acceptance.results import Card, Outcome, Row, Source, Verdict
from nvshare.quantity import amount
from nvshare.record import Record

GB = 1e9
Values = dict[str, float]
SLOW_LINK = "compare `nvidia-smi -q -d PCIE` with what the slot should give; a riser or a full bus halves it"
NEW_CARD = "add the figures of this card: docs/hardware.md says how"
REPORT = "send the report, with the output of `nvshare doctor`"


class Judged(Record, frozen=True):
    """One line about one value."""

    what: str
    is_as_predicted: bool
    measured: str
    predicted: str
    remedy: str = ""


Judge = Callable[[Values, Card], Iterable[Judged]]


def rows(check: str, what: str, outcome: Outcome, card: Card, judge: Judge, remedy: str) -> list[Row]:
    """The lines of one check. `what` and `remedy` are used if it found nothing to judge."""
    is_simulated = bool(outcome.values.get("simulated", card.is_simulated))
    source: Source = "machine" if "machine" in outcome.values else "simulated" if is_simulated else "real"
    took = outcome.seconds
    if outcome.skipped:
        return [Row(check, what, "skipped", source, outcome.skipped, seconds=took)]
    if outcome.error:
        return [Row(check, what, "failed", source, outcome.error, remedy=remedy, seconds=took)]
    return [_row(check, judged, source, took) for judged in judge(outcome.values, card)]


def _row(check: str, judged: Judged, source: Source, took: float) -> Row:
    verdict: Verdict = "ok" if judged.is_as_predicted else "differs"
    remedy = "" if judged.is_as_predicted else judged.remedy
    return Row(check, judged.what, verdict, source, judged.measured, judged.predicted, remedy, took)


def _speed(what: str, speed: float, expected: float, card: Card, remedy: str) -> Judged:
    allowed = prediction.about(expected, card)
    predicted = f"{allowed.low / GB:.1f} to {allowed.high / GB:.1f} GB/s"
    return Judged(what, allowed.contains(speed), f"{speed / GB:.2f} GB/s", predicted, remedy)


def moves(values: Values, card: Card) -> Iterable[Judged]:
    size, figures = values["bytes"], card.figures
    slow = SLOW_LINK if card.is_known else NEW_CARD
    faults = prediction.speed_of_faults(card)
    yield _speed("page faults", size / values["fault_s"], faults, card, slow)
    yield _speed("first touch", size / values["first_touch_s"], faults, card, NEW_CARD)
    yield _speed("prefetch to the GPU", size / values["in_s"], figures.link, card, slow)
    yield _speed("prefetch to the host", size / values["out_s"], figures.link, card, slow)
    yield _speed("memory on the GPU", size / values["resident_s"], figures.bandwidth, card, NEW_CARD)
    again, resident = values["after_prefetch_s"], values["resident_s"]
    yield Judged(
        "memory is there after a prefetch",
        again < 2 * resident,
        f"{again / resident:.1f} times the time of memory on the GPU",
        "below 2 times",
        "this driver ignores prefetches: the library notices it and leaves moves to page faults; NVSHARE_PREFETCH=0",
    )


def _added(what: str, bare: float, shared: float, most: float) -> Judged:
    added = shared - bare
    most = max(most, bare / 10)
    measured = f"{bare:,.0f} ns without nvshare, {shared:,.0f} ns with it"
    return Judged(what, added <= most, measured, f"at most {most:,.0f} ns more", REPORT)


def launches(values: Values, card: Card) -> Iterable[Judged]:
    most = prediction.MOST_ADDED_LAUNCH_NS
    yield _added("a kernel launch", values["bare_launch_ns"], values["launch_ns"], most)


def allocations(values: Values, card: Card) -> Iterable[Judged]:
    most = prediction.MOST_ADDED_ALLOCATION_NS
    yield _added("an allocation of 2 MiB", values["bare_allocate_ns"], values["allocate_ns"], most)
    yield _added("a free of 2 MiB", values["bare_free_ns"], values["free_ns"], most)


def limit(values: Values, card: Card) -> Iterable[Judged]:
    yield Judged(
        "an allocation over the limit is refused, and granted after the limit is raised",
        bool(values["refused"] and values["granted"]),
        f"refused: {_yes(values['refused'])}, granted: {_yes(values['granted'])}",
        "refused: yes, granted: yes",
        REPORT,
    )
    yield Judged(
        "CUDA shows the limit as the card's memory",
        values["shown_bytes"] == values["limit_bytes"],
        amount(values["shown_bytes"]),
        amount(values["limit_bytes"]),
        REPORT,
    )
    most = prediction.LIVE_CHANGE_S
    took = values["live_change_s"]
    predicted = f"within {most * 1e3:.0f} ms"
    yield Judged("a limit changes while its program runs", took <= most, f"{took * 1e3:.1f} ms", predicted, REPORT)


def switch(values: Values, card: Card) -> Iterable[Judged]:
    first, second = values["first_turns"], values["second_turns"]
    yield Judged(
        "two programs that do not fit together take turns",
        min(first, second) >= 2,
        f"{first:.0f} and {second:.0f} turns",
        "at least 2 each",
        REPORT,
    )
    is_bulk = bool(values["in_bulk"])
    each = int(values["bytes"])
    allowed = (prediction.switch_in_bulk_s if is_bulk else prediction.switch_by_faults_s)(card, each)
    what = f"a switch that moves memory {'in bulk' if is_bulk else 'by page faults'}"
    measured = f"{values['switch_s']:.2f} s, {values['switches']:.0f} switches of programs with {amount(each)}"
    remedy = SLOW_LINK if is_bulk else NEW_CARD
    yield Judged(what, allowed.contains(values["switch_s"]), measured, _s(allowed), remedy)


def _s(allowed: Range) -> str:
    return f"{allowed.low:.1f} to {allowed.high:.1f} s" if allowed.low else f"at most {allowed.high:.1f} s"


def reserve(values: Values, card: Card) -> Iterable[Judged]:
    slower = values["pass_s"] / values["bare_pass_s"]
    most = prediction.MOST_SLOWER
    yield Judged(
        "a program that fills what it is shown is not slower than without nvshare",
        slower <= most,
        f"{slower:.2f} times the time, with {amount(values['bytes'])}",
        f"at most {most} times",
        "raise --card-reserve of the scheduler: this card needs more memory for the driver",
    )


def nvml(values: Values, card: Card) -> Iterable[Judged]:
    shown = values.get("nvml_total")
    if shown is None:
        yield Judged(
            "NVML shows the memory of the GPU",
            False,
            f"NVML answers with error {values['nvml_error']:.0f}; CUDA shows {amount(values['cuda_total'])}",
            "the same figure as CUDA",
            "nvshare plans with the memory of the machine; set limits for each program",
        )
        return
    yield Judged(
        "NVML shows a program its limit",
        shown == values["limit_bytes"],
        amount(shown),
        amount(values["limit_bytes"]),
        REPORT,
    )


def small_memory(values: Values, card: Card) -> Iterable[Judged]:
    remedy = "set NVSHARE_MEMORY_MODE=native for programs that need it"
    for name, what in (("stream_value", "a stream writes a value to small memory"), ("ipc_handle", "an IPC handle")):
        yield Judged(what, bool(values[name]), _yes(values[name]), "yes", remedy)


def identity(values: Values, card: Card) -> Iterable[Judged]:
    is_paged = bool(values["managed"] and values["concurrent"])
    yield Judged(
        "unified memory with paging on demand",
        is_paged,
        f"{_yes(is_paged)}, compute capability {values['compute_major']:.0f}.{values['compute_minor']:.0f}",
        "yes",
        "all programs together must fit into the card's memory: set limits",
    )


def compute_mode(values: Values, card: Card) -> Iterable[Judged]:
    measured = "exclusive" if values["is_exclusive"] else "default"
    remedy = f"nvidia-smi -i {card.uuid} -c DEFAULT"
    yield Judged("the compute mode lets several programs in", not values["is_exclusive"], measured, "default", remedy)


def mps(values: Values, card: Card) -> Iterable[Judged]:
    remedy = "to the driver, all clients of MPS are one process: echo quit | nvidia-cuda-mps-control"
    yield Judged("MPS is off", not values["is_running"], "on" if values["is_running"] else "off", "off", remedy)


def host_memory(values: Values, card: Card) -> Iterable[Judged]:
    available = values["available_bytes"]
    yield Judged(
        "the host can take the memory of the card",
        available >= card.total_bytes,
        f"{amount(available)} for this process (cgroup and machine)",
        f"at least {amount(card.total_bytes)}",
        "raise the memory limit of the pod or container, or limit GPU memory: until then programs wait for each other",
    )


def works(what: str) -> Judge:
    """For checks that fail or work."""

    def judge(values: Values, card: Card) -> Iterable[Judged]:
        yield Judged(what, True, "works", "works")

    return judge


def framework(name: str) -> Judge:
    """Says what was shown: on a simulated card not what kernels compute, and nothing about NCCL itself."""

    def judge(values: Values, card: Card) -> Iterable[Judged]:
        gpus = f" on {values['gpus']:.0f} GPUs" if values["gpus"] > 1 else ""
        with_gloo = ", with gloo" if name == "nccl" else ""
        runs = f"runs{gpus}{with_gloo}; kernels of a simulated card compute nothing"
        yield Judged(name, True, runs if card.is_simulated else f"works{gpus}", "works")

    return judge


def _yes(value: float) -> str:
    return "yes" if value else "no"
