"""Every command block of README.md that can run here runs exactly as printed.

A block that cannot says why in a comment before it: `<!-- not run: reason -->`."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```bash\n(?P<commands>.*?)```", re.DOTALL)
BLOCKS = [match.groupdict() for match in _FENCE.finditer((ROOT / "README.md").read_text())]
RUNNABLE = [block["commands"] for block in BLOCKS if block["reason"] is None]


def test_the_readme_has_blocks_that_run() -> None:
    assert len(RUNNABLE) >= 2


@pytest.mark.parametrize("commands", RUNNABLE, ids=[block.splitlines()[0][:60] for block in RUNNABLE])
def test_a_command_block_runs_as_printed(commands: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("NVSHARE_", "PYTEST_"))}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
