"""The alerts for Prometheus, judged by Prometheus' own tool. `make test` puts it into build/promtool."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "nvshare.rules.yaml"
CASES = Path(__file__).parent / "alerts.yaml"
PROMTOOL = shutil.which("promtool", path=str(ROOT / "build" / "promtool")) or shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not there: tools/promtool.sh build/promtool downloads it"
)


def promtool(*words: str) -> tuple[int, str]:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_prometheus_accepts_the_alerts() -> None:
    code, text = promtool("check", "rules", str(RULES))
    assert code == 0, text


@needs_promtool
def test_each_alert_fires_for_its_cause_and_not_without_it(tmp_path: Path) -> None:
    code, text = promtool("test", "rules", str(CASES))
    assert code == 0, text
    # A rule that is wrong is found.
    (tmp_path / "rules.yaml").write_text(RULES.read_text().replace("> 0.1 *", "> 0.2 *"))
    (tmp_path / "cases.yaml").write_text(CASES.read_text().replace(str(_named_rules()), "rules.yaml"))
    code, text = promtool("test", "rules", str(tmp_path / "cases.yaml"))
    assert code == 1
    assert "NvshareForeignMemory" in text


def test_every_alert_has_a_case() -> None:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    cases = yaml.safe_load(CASES.read_text())["tests"]
    fired = [test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]]
    assert fired == [rule["alert"] for rule in group["rules"]]


def _named_rules() -> str:
    (name,) = yaml.safe_load(CASES.read_text())["rule_files"]
    return str(name)
