"""A quarantined test does not decide, and is never hidden."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def run(folder: Path, marker: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(f"import pytest\n\n\n{marker}\ndef test_sometimes():\n    assert False\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "support.quarantine", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder,
        env={"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_quarantined_tests_failure_is_counted_and_does_not_decide(tmp_path: Path) -> None:
    done = run(tmp_path, '@pytest.mark.quarantined("a race in the kernel")')
    assert done.returncode == 0, done.stdout
    assert "QUARANTINED test_it.py::test_sometimes: a race in the kernel\nquarantined: 1\n" in done.stdout


def test_without_quarantine_a_failure_decides_and_the_count_is_0(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode == 1
    assert "quarantined: 0\n" in done.stdout


@pytest.mark.parametrize("marker", ["@pytest.mark.quarantined", '@pytest.mark.quarantined(" ")'])
def test_quarantine_takes_a_reason(tmp_path: Path, marker: str) -> None:
    done = run(tmp_path, marker)
    assert done.returncode != 0
    assert "is quarantined without a reason" in done.stderr
