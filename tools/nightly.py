"""Every make target in order, each in a fresh clone of its own, with a log and a table of target, result and seconds.
It fails if one failed.

    python3 tools/nightly.py [target ...]

A clone has only what is committed, so a target that needs what another one has built fails. The clone of a target that
failed is kept in build/nightly/TARGET, the others are removed: with its virtual environment each takes up to 10 GB."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGETS = (
    "setup",
    "native",
    "lint",
    "test",
    "demo",
    "bench",
    "simulate",
    "soak",
    "chaos",
    "sanitize",
    "fuzz",
    "release",
    "numba",
    "torch",
    "e2e",
    "e2e-1.36",
    "e2e-1.34",
    "scale",
)
VARIANTS = {f"e2e-{release}": ("e2e", f"KUBERNETES={release}") for release in ("1.36", "1.34")}
"""A target with other settings: what `make` is given."""
SETTINGS = {"chaos": ("ALLOCATIONS=1000000",)}
"""Of targets that do more at night."""


def run(target: str, logs: Path, root: Path) -> tuple[str, str, float]:
    """Make one target in a clone of `root`; its name, its result and how many seconds it took."""
    clone = logs / target
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(root), str(clone)], check=True)
    began = time.monotonic()
    command = ["make", *VARIANTS.get(target, (target,)), *SETTINGS.get(target, ())]
    with (logs / f"{target}.log").open("wb") as log:
        code = subprocess.run(command, cwd=clone, stdout=log, stderr=log, check=False).returncode
    seconds = time.monotonic() - began
    if code == 0:
        shutil.rmtree(clone)
    return target, "ok" if code == 0 else f"failed ({code})", seconds


def main(targets: list[str], root: Path = ROOT) -> int:
    logs = root / "build" / "nightly"
    logs.mkdir(parents=True, exist_ok=True)
    rows = []
    for target in targets or TARGETS:
        print(f"make {target} ...", flush=True)
        rows.append(run(target, logs, root))
    print(f"\n{'target':<12}{'result':<14}{'seconds':>8}")
    for target, result, seconds in rows:
        print(f"{target:<12}{result:<14}{seconds:>8.0f}")
    failed = [target for target, result, _ in rows if result != "ok"]
    for target in failed:
        print(f"\n{logs / target}.log ends with:")
        print("\n".join((logs / f"{target}.log").read_text(errors="replace").splitlines()[-15:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
