"""Waiting for what cannot be awaited: another process's file, log line or state."""

import time
from collections.abc import Callable

STEP_S = 0.005


def wait_until(claim: Callable[[], object], what: str, seconds: float = 60) -> float:
    """Ask again and again until the claim is true; how long that took."""
    began = time.monotonic()
    while not claim():
        assert time.monotonic() - began < seconds, f"not within {seconds} s: {what}"
        time.sleep(STEP_S)
    return time.monotonic() - began
