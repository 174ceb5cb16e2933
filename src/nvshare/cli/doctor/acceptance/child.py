"""One check, in a process of its own: a driver that hangs or crashes ends this process and not the kit.

The card comes on standard input, the outcome goes to standard output, both as JSON."""

import contextlib
import os
import sys
import time

import msgspec

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.doctor.acceptance.kit import Check, checks
from nvshare.cli.doctor.acceptance.results import Card, Outcome
from nvshare.cli.doctor.acceptance.several import SkippedError
from nvshare.cli.errors import CommandError
from nvshare.inventory.nvml import GpuLostError, NvmlUnavailableError

FAILURES = (
    CommandError, OSError, NvmlUnavailableError, GpuLostError, operator_client.UnreachableError,
    operator_client.RefusedError, admin.AdminError, ValueError,
)  # fmt: skip


def outcome_of(check: Check, card: Card) -> Outcome:
    """Run it here. What it finds wrong is an outcome and never raised."""
    began = time.monotonic()
    try:
        values = {name: float(value) for name, value in check.measure(card).items()}
        return Outcome(values, seconds=time.monotonic() - began)
    except SkippedError as error:
        return Outcome(skipped=str(error))
    except TimeoutError:
        return Outcome(error="a program did not answer in time", seconds=time.monotonic() - began)
    except FAILURES as error:
        return Outcome(error=str(error) or type(error).__name__, seconds=time.monotonic() - began)


def main() -> None:
    name, python = sys.argv[1:]
    card = msgspec.json.decode(sys.stdin.buffer.read(), type=Card)
    check = next(check for check in checks(python) if check.name == name)
    # What programs print by mistake must not be taken for the outcome.
    with os.fdopen(os.dup(1), "wb") as answers, contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        answers.write(msgspec.json.encode(outcome_of(check, card)))


if __name__ == "__main__":
    main()
