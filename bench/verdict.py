"""What a row of the table says about its figure.

    floor_ratio      the figure divided by a floor that was measured in the same run
    max_floor_ratio  the bound of that ratio; `ok` is false beyond it, and then the run fails
    goal             "met" or "missed": what we want to reach, often in absolute time. It never fails the run

A bound is 1.7 to 2 times the ratio that was measured when it was set: the ratio varies less than that between machines
and with their load, and code that takes twice as long exceeds it."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def bounded(figure: float, floor: float, max_ratio: float) -> Row:
    """The part of a row that may fail the run."""
    ratio = figure / floor
    return {"floor_ratio": round(ratio, 2), "max_floor_ratio": max_ratio, "ok": ratio <= max_ratio}


def goal(is_met: bool) -> Row:
    """The part of a row that reports."""
    return {"goal": "met" if is_met else "missed"}
