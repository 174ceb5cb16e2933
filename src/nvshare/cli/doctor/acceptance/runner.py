"""Runs the checks one after another, each in a process of its own with a time limit: the kit ends even if a driver
hangs."""

import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
from msgspec import structs

from nvshare import __version__
from nvshare.cli.doctor.acceptance import judgement
from nvshare.cli.doctor.acceptance.kit import Check, checks
from nvshare.cli.doctor.acceptance.results import Card, Outcome, Report, Row
from nvshare.cli.errors import CommandError
from nvshare.inventory.gpus import Gpu, SelectionError, select
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.printable import last_line

END_S = 5
USED_PART = 0.1
"""A card counts as used if programs other than a display have more than this part of its memory."""
Announce = Callable[[str], None]


def cards(wanted: str) -> list[Card]:
    """The GPUs to test: by index or UUID, or `all`. Raises CommandError."""
    try:
        with Nvml() as nvml:
            return [_card(nvml, gpu) for gpu in select(nvml.discover(), wanted)]
    except (NvmlUnavailableError, GpuLostError, SelectionError) as error:
        raise CommandError(str(error)) from None


def _card(nvml: Nvml, gpu: Gpu) -> Card:
    sample = nvml.sample(gpu.uuid)
    is_used = nvml.computes(gpu.uuid) or sample.used_bytes > USED_PART * sample.total_bytes
    return Card(gpu.uuid, gpu.name, sample.total_bytes, sample.total_bytes - sample.used_bytes, is_used)


def accept(card: Card, python: str, announce: Announce) -> Iterator[Row]:
    """The rows of one GPU, as they come."""
    table = checks(python)
    for number, check in enumerate(table, 1):
        announce(f"{number} of {len(table)}: {check.what} ...")
        outcome = _measured(check, card, python)
        if check.name == "identity" and outcome.values.get("simulated"):
            card = _simulated(card)
        yield from judgement.rows(check.name, check.what, outcome, card, check.judge, check.remedy)


def _simulated(card: Card) -> Card:
    return structs.replace(card, is_simulated=True, scale=float(os.environ.get("NVSHARE_SIM_SCALE") or 1))


def _measured(check: Check, card: Card, python: str) -> Outcome:
    if check.needs_idle_card and card.is_used:
        return Outcome(skipped="other programs use this card; run it again when they have ended")
    command = [sys.executable, "-P", "-m", "nvshare.cli.doctor.acceptance.child", check.name, python]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("LD_PRELOAD", None)
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    limit_s = check.limit_s(card)
    try:
        output, errors = process.communicate(msgspec.json.encode(card), timeout=limit_s)
    except subprocess.TimeoutExpired:
        return Outcome(error=f"not finished after {limit_s} s", seconds=limit_s)
    finally:
        _end(process)
    try:
        return msgspec.json.decode(output, type=Outcome)
    except msgspec.DecodeError:
        text = last_line(errors.decode(errors="replace")) or f"exit code {process.returncode}"
        return Outcome(error=f"the check ended without an answer: {text}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the check with all its programs. One that a driver holds in the kernel is left behind after a while.

    A check that has ended by itself has ended its programs; its number may belong to another process by now."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=END_S)


def report(card: Card, rows: tuple[Row, ...]) -> Report:
    """All that is sent."""
    with Nvml() as nvml:
        driver = nvml.driver_version()
    machine = {
        "driver": driver,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
    }
    found = _simulated(card) if any(row.source == "simulated" for row in rows) else card
    return Report(__version__, found, machine, rows)
