"""`make nightly` runs every target from a fresh clone and hides no failure."""

import re
import subprocess
from pathlib import Path

import pytest

import nightly

NOT_RUN = {
    "help": "it only prints",
    "generate": "it changes the tree; `lint` checks that there is nothing to change",
    "nightly": "it is the one that runs them",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(
        "good:\n\t@echo fine\n"
        "bad:\n\t@echo broken; exit 7\n"
        "build:\n\t@touch built\n"
        "use:\n\t@test -e built || { echo nothing is built; exit 1; }\n"
    )
    for command in (
        ["init", "--quiet"],
        ["add", "Makefile"],
        ["-c", "user.name=t", "-c", "user.email=t", "commit", "--quiet", "--message", "t"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_every_target_of_the_makefile_is_run_or_left_out_for_a_reason() -> None:
    documented = re.findall(r"^([a-z0-9-]+):.*##", (nightly.ROOT / "Makefile").read_text(), re.MULTILINE)
    run = [target for target in nightly.TARGETS if target not in nightly.VARIANTS]
    assert sorted([*run, *NOT_RUN]) == sorted(documented)
    assert {made[0] for made in nightly.VARIANTS.values()} <= set(run)


def test_every_release_of_the_test_cluster_is_run() -> None:
    settings = (nightly.ROOT / "tools" / "cluster" / "settings.sh").read_text()
    newest = re.findall(r"KUBERNETES:=([0-9.]+)}", settings)
    others = [made[1].partition("=")[2] for made in nightly.VARIANTS.values()]
    assert sorted(newest + others) == sorted(re.findall(r"^  ([0-9.]+)\) :", settings, re.MULTILINE))


def test_a_failure_is_shown_and_the_targets_after_it_are_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert nightly.main(["bad", "good"], repository) == 1
    out = capsys.readouterr().out
    assert re.search(r"^bad +failed \(2\) +\d+$", out, re.MULTILINE)
    assert re.search(r"^good +ok +\d+$", out, re.MULTILINE)
    assert "\nbroken\n" in out
    assert nightly.main(["good"], repository) == 0


def test_a_target_that_needs_what_another_one_built_fails(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "built").touch()
    assert nightly.main(["build", "use"], repository) == 1
    out = capsys.readouterr().out
    assert re.search(r"^build +ok +\d+$", out, re.MULTILINE)
    assert re.search(r"^use +failed \(2\) +\d+$", out, re.MULTILINE)
    assert "\nnothing is built\n" in out
    assert [path.name for path in (repository / "build" / "nightly").iterdir() if path.is_dir()] == ["use"]
