"""`make test`: a failure in the background counts like one in the foreground, and is shown."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from run_tests import COVERED, PURE

SCRIPT = Path(__file__).parents[2] / "tools" / "run_tests.py"
FOLDERS = [*COVERED, *PURE, "tests/other"]


@pytest.mark.parametrize("failing", [None, COVERED[0], PURE[0], "tests/other"])
def test_a_failure_decides_wherever_it_is(tmp_path: Path, failing: str | None) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(SCRIPT, tmp_path / "tools")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n')
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "test_it.py").write_text(f"def test_it():\n    assert {folder != failing}\n")
    ended = subprocess.run([sys.executable, tmp_path / "tools" / SCRIPT.name], capture_output=True, check=False)
    assert (ended.returncode == 0) == (failing is None), ended.stdout
    assert (failing is None) == (b"1 failed" not in ended.stdout)
    assert ended.stdout.count(b" passed") == 3 - (failing == "tests/other")
