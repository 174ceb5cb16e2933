"""All benchmarks: one table, build/bench.json, build/bench.svg. `python -m bench NAME…` runs only some; `--record`
also writes the rows to bench/results.json: all of it, or the parts that were run.

The exit code is 1 if a figure exceeds its bound (`ok False`), which is a multiple of a floor measured in the same
run, or if a part could not be measured (no compiler, a program that was not built). A goal that is missed is only
reported (verdict.py). A part that needs root is a row that says so; nothing is left out in silence."""

from __future__ import annotations

import argparse
import datetime
import importlib
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import curves

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results.json"
Row = dict[str, Any]


def rows_of(module: str) -> Callable[[], list[Row]]:
    return lambda: list(importlib.import_module(f"bench.{module}").rows())


PARTS: dict[str, Callable[[], list[Row]]] = {
    "handover": rows_of("handover"),
    "core_step": rows_of("core_step"),
    "budget_step": rows_of("budget_step"),
    "scrape": rows_of("scrape"),
    "library": rows_of("library"),
    "daemon": rows_of("daemon"),
    "floods": rows_of("floods"),
    "simgpu": rows_of("simgpu"),
    "switches": rows_of("switches"),
    "shares": rows_of("shares"),
}


def machine() -> Row:
    model = next((line.partition(": ")[2] for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": model,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpuinfo() -> list[str]:
    return Path("/proc/cpuinfo").read_text().splitlines()


def measure(name: str) -> list[Row]:
    """A part's rows; if it fails, one row with the reason."""
    began = time.monotonic()
    try:
        found = PARTS[name]()
    except Exception as error:  # whatever went wrong there, the other parts are still worth measuring
        return [{"bench": name, "failed": f"{type(error).__name__}: {error}"}]
    print(f"# {name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return found


def show(row: Row) -> str:
    head = f"{row['bench']:14}"
    return head + "  ".join(f"{name} {value}" for name, value in row.items() if name != "bench")


def record(path: Path, here: Row, rows: dict[str, list[Row]]) -> None:
    """All parts: the file has this run only. Some: each of them has an entry of its own, beside the last full run."""
    if set(rows) == set(PARTS):
        kept: Row = {"machine": here, "rows": list(itertools.chain(*rows.values()))}
    else:
        kept = json.loads(path.read_text())
        kept["later"] = kept.get("later", {}) | {name: {"machine": here, "rows": found} for name, found in rows.items()}
    path.write_text(as_json(kept))


def as_json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the rows to bench/results.json")
    parser.add_argument("parts", nargs="*", metavar="NAME", help=", ".join(PARTS))
    given = parser.parse_args()
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return given


def main() -> int:
    given = arguments()
    names = given.parts or list(PARTS)
    here = machine()
    print("  ".join(f"{name} {value}" for name, value in here.items()))
    rows: dict[str, list[Row]] = {}
    for name in names:
        rows[name] = measure(name)
        for row in rows[name]:
            print(show(row), flush=True)
    found = list(itertools.chain(*rows.values()))
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "bench.json").write_text(as_json({"machine": here, "rows": found}))
    (build / "bench.svg").write_text(curves.draw(found))
    if given.record:
        record(RESULTS, here, rows)
    exceeded = [row for row in found if row.get("ok") is False]
    failed = [row for row in found if "failed" in row]
    missed = [row for row in found if row.get("goal") == "missed"]
    for row in exceeded:
        print(f"exceeds its bound: {show(row)}")
    print(
        f"{len(found)} rows: {len(exceeded)} exceed their bound, {len(failed)} could not be measured;"
        f" {len(missed)} miss their goal, which does not fail the run"
    )
    return 1 if exceeded or failed else 0


if __name__ == "__main__":
    sys.exit(main())
