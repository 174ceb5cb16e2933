"""What starts quickly stays quick: nobody loads what only others need."""

import subprocess
import sys

import pytest

HEAVY = ("rich", "PIL", "playwright", "prometheus_client", "uvloop", "h11", "click", "asyncio")
ALLOWED = {
    "nvshare.scheduler.main": {"prometheus_client", "uvloop", "asyncio"},
    "nvshare.cli.ctl.nvsharectl": {"click"},
    "nvshare.cli.run.command": {"click"},
    "nvshare.cli.ctl.top": {"click"},
}


@pytest.mark.parametrize("module", ALLOWED)
def test_a_program_loads_only_what_it_needs(module: str) -> None:
    code = f"import sys, {module}; print(*(name for name in {HEAVY} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) <= ALLOWED[module]
