"""The framework checks of `nvshare doctor --gpu` on simulated cards, in an interpreter where the framework is installed
(`make torch`, `make numba`): the scripts of the kit run whole, and assert what holds on such a card.

    kit_frameworks.py PYTHON NAME...        run where the simulated driver is found"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCALE = 0.05
TIMEOUT_S = 600


def check(python: Path, name: str) -> str | None:
    """None if it went well, else what it said."""
    from nvshare.simgpu.config import SimGpu

    with tempfile.TemporaryDirectory(prefix="nvshare-kit-") as directory:
        settings = SimGpu().with_values(directory=directory, gpus=2, memory="16Gi", scale=SCALE)
        environment = settings.environment({**os.environ, "PYTHONPATH": str(ROOT / "src")})
        command = [sys.executable, str(Path(__file__)), str(python), name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return None if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    from msgspec import structs

    from nvshare.cli.doctor.acceptance import judgement, runner
    from nvshare.cli.doctor.acceptance.child import outcome_of
    from nvshare.cli.doctor.acceptance.kit import checks

    python, *names = sys.argv[1:]
    card = structs.replace(runner.cards("0")[0], is_simulated=True, scale=SCALE)
    failed = 0
    for one in (one for one in checks(python) if one.name in names):
        for row in judgement.rows(one.name, one.what, outcome_of(one, card), card, one.judge, one.remedy):
            print(row.verdict, row.what, row.measured)
            failed += row.verdict != "ok"
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
