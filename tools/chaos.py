"""Real programs and their scheduler under every load that was ever found to hurt: python tools/chaos.py.

1. A storm: programs on a simulated GPU while their scheduler is killed every second (--seconds 60).
2. Processes that share a limit: allocations that were answered wrongly (--allocations 1000000 --seeds 3,
   --shipped-waits).
3. One load for each way in which the scheduler was ended, frozen, starved or outwitted (--load-seconds 4, --only 3,7).

A table says what was measured. A load that needs root is skipped without it. A delay that was too long, on a machine
that was too busy for it even without the load, is "not judged"; so is a wrong refusal while a process waited for a
processor. The last line counts the verdicts. The exit code is 1 if something was violated."""

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src"), str(ROOT)]

import chaos.absence_loads as absence_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.allocations as sharing  # type: ignore[import-not-found]  # noqa: E402
import chaos.exit_loads as exit_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.full_memory_loads as full_memory_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.gang_loads as gang_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.loads as loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.memory_loads as memory_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.move_loads as move_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.other_loads as other_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.program_loads as program_loads  # type: ignore[import-not-found]  # noqa: E402
import chaos.viewer_loads as viewer_loads  # type: ignore[import-not-found]  # noqa: E402
from chaos.start_together import start_together  # type: ignore[import-not-found]  # noqa: E402
from chaos.storm import Plan, Storm, few_descriptors  # type: ignore[import-not-found]  # noqa: E402

STARTS = {"2b": ("processes that start together", start_together)}
FILES = (
    loads,
    viewer_loads,
    program_loads,
    exit_loads,
    absence_loads,
    other_loads,
    gang_loads,
    memory_loads,
    full_memory_loads,
    move_loads,
)
LOADS = {number: load for file in FILES for number, load in file.LOADS.items()} | STARTS
assert len(LOADS) == sum(len(file.LOADS) for file in FILES) + len(STARTS), "two loads have one number"


class Row(NamedTuple):
    """One load."""

    name: str
    measured: str
    wrongs: list[str]
    is_skipped: bool = False
    not_judged: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        if self.wrongs:
            return "WRONG"
        return "skipped" if self.is_skipped else "not judged" if self.not_judged else "ok"


def storm(place: Path, plan: Plan) -> Row:
    raging = Storm(place, plan)
    report = raging.report
    try:
        raging.run()
        few_descriptors(place / "few")
    except AssertionError as error:
        report.wrong.append(str(error))
    if not report.moved_out:
        report.wrong.append("no program moved memory in bulk")
    faults = ", ".join(f"{n} x {what}" for what, n in report.done.items())
    measured = (
        f"{faults}; {report.finished} programs finished with the right result, {report.killed} were killed,"
        f" {report.moved_out} moved memory in bulk;"
        f" a crowd of {plan.crowd}: memory {report.memory_growth / 1024:+.0f} KiB,"
        f" descriptors {report.descriptors[0]} before and {report.descriptors[1]} after"
    )
    return Row("a storm", measured, report.wrong)


def allocations(place: Path, wanted: int, seed: int, *, has_shipped_waits: bool) -> Row:
    plan = sharing.Plan(allocations=wanted, seed=seed, has_shipped_waits=has_shipped_waits)
    report = sharing.Allocations(place, plan).run()
    faults = ", ".join(f"{n} x {what}" for what, n in report.done.items())
    measured = (
        f"{report.allocations} in {report.seconds:.0f} s ({faults}): {report.refusals} refused,"
        f" {report.wrong_refusals} of them although they fitted; {report.over_limit} allowed over the limit"
    )
    measured += f"; {report.excused} excused, longest time without a processor {report.longest_stall_ms} ms"
    measured += "".join(f"\n      {excuse}" for excuse in report.excuses)
    excused = f"{report.excused} wrong refusals: a process had waited for a processor"
    not_judged = (excused,) if report.excused else ()
    return Row(f"2  allocations, seed {seed}", measured, report.wrong(plan), not_judged=not_judged)


def load(place: Path, row: str, seconds: float) -> Row:
    name, run = LOADS[row]
    try:
        result = run(place, seconds)
    except Exception as error:
        return Row(f"{row}  {name}", "", ["".join(traceback.format_exception(error)).rstrip()])
    wrongs = [result.wrong] if result.wrong else []
    return Row(f"{row}  {name}", result.measured, wrongs, result.is_skipped, result.not_judged)


def rows(options: argparse.Namespace, place: Path) -> Iterator[Row]:
    chosen = options.only.split(",") if options.only else ["storm", "2", *LOADS]
    for row in sorted(chosen, key=lambda row: (row != "storm", int("".join(filter(str.isdigit, row)) or 0), row)):
        where = place / row
        if row == "storm":
            where.mkdir()
            plan = Plan(options.seconds, options.clients, options.rounds, options.crowd, options.seed)
            yield storm(where, plan)
        elif row == "2":
            for seed in range(options.seed, options.seed + options.seeds):
                (place / f"allocations-{seed}").mkdir()
                where = place / f"allocations-{seed}"
                yield allocations(where, options.allocations, seed, has_shipped_waits=options.shipped_waits)
        else:
            yield load(where, row, options.load_seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--crowd", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--allocations", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=1, help="how many runs of allocations, each with its seed")
    parser.add_argument("--shipped-waits", action="store_true", help="the library's default waits, in load 2")
    parser.add_argument("--load-seconds", type=float, default=4)
    parser.add_argument("--only", default="", help="some loads only, for example storm,2,7")
    options = parser.parse_args()
    began, verdicts = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        for row in rows(options, Path(place)):
            print(f"{row.verdict:12}{row.name:32}{row.measured}", flush=True)
            for line in (*row.wrongs, *(f"not judged: {what}" for what in row.not_judged)):
                print(f"            {line}")
            verdicts[row.verdict] += 1
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    print(f"{counts}; {time.monotonic() - began:.0f} s, seed {options.seed}")
    return 1 if verdicts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
