"""tools/ablation.py: what each rule and constant of mode balanced is for."""

import subprocess
import sys
from pathlib import Path

import pytest

import ablation
from nvshare.core.model import QuantumRule, Settings
from nvshare.core.modes import balanced
from nvshare.schedsim.distributions import Scene

ROOT = Path(__file__).parents[2]


def test_a_variant_differs_and_leaves_the_mode_as_it_was() -> None:
    number = next(i for i, variant in enumerate(ablation.VARIANTS) if variant.name == "lag 20 → 0")
    scene = Scene("interactive")
    *_, before = ablation.run(ablation.Task(scene, 200, None))
    (without,) = ablation.run(ablation.Task(scene, 200, number))
    *_, after = ablation.run(ablation.Task(scene, 200, None))
    assert balanced.LAG_FACTOR == 20
    assert without != before == after


@pytest.mark.parametrize("variant", ablation.VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_changes_what_exists(variant: ablation.Variant) -> None:
    assert variant.changes or variant.rule or variant.settings
    assert all(hasattr(where, name) for where, name, _ in variant.changes)
    assert all(hasattr(QuantumRule(), name) for name, _ in variant.rule)
    assert all(hasattr(Settings(), name) for name, _ in variant.settings)


def test_each_variant_is_a_row() -> None:
    words = ["--kind", "small", "--count", "2", "--first", "200", "--only", "visit to cost", "--jobs", "1"]
    command = [sys.executable, str(ROOT / "tools" / "ablation.py"), *words]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "| changed | makespan | slowdown | bursts | longest wait: mean, of all | worse |"
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "nothing",
        "visit to cost 12 → 6",
        "visit to cost 12 → 24",
    ]
