"""Real programs on a simulated GPU while their scheduler is killed: python tools/chaos.py --seconds 60."""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from chaos.storm import Plan, Storm, few_descriptors  # type: ignore[import-not-found]  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--crowd", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        report = Storm(Path(place), Plan(**vars(options))).run()
        few_descriptors(Path(place) / "few")
    print(
        f"seed {options.seed}, {report.seconds:.0f} s: " + ", ".join(f"{n} x {what}" for what, n in report.done.items())
    )
    print(f"{report.finished} programs finished with the right result, {report.killed} were killed")
    print(f"a crowd of {options.crowd} came and went: memory {report.memory_growth / 1024:+.0f} KiB,", end=" ")
    print(f"descriptors {report.descriptors[0]} before and {report.descriptors[1]} after")
    for wrong in report.wrong:
        print(f"WRONG: {wrong}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
