"""Files that other programs read: the Grafana dashboard and the systemd units say only what is so."""

import configparser
import json
import re
import shlex
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from nvshare.config import OPTIONS, load
from web.players import Player

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "nvshare.json").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def exported(scheduler: Any) -> set[str]:
    """Every family that a scrape gives while somebody runs."""
    with Player(scheduler.socket, "somebody", gib=1) as somebody:
        somebody.ask()
        assert somebody.runs.wait(60)
        text = urllib.request.urlopen(f"{scheduler.url}/metrics", timeout=60).read().decode()
    return {family.name for family in text_string_to_metric_families(text)}


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def used() -> set[str]:
    """The families that the dashboard asks for, by the names that the exporter gives them."""
    names: set[str] = set()
    queries = [variable["query"] for variable in DASHBOARD["templating"]["list"]]
    for expression in (*expressions(), *queries):
        names |= set(re.findall(r"nvshare_[a-z_]+", expression))
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names}


def test_the_dashboard_has_every_metric_and_no_other(scheduler: Any) -> None:
    assert used() == exported(scheduler)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "nvshare.rules.yaml").read_text())["groups"]
    return list(group["rules"])


def test_alerts_ask_only_for_metrics_and_labels_that_there_are(scheduler: Any) -> None:
    names = {name for rule in rules() for name in re.findall(r"nvshare_[a-z_]+", rule["expr"])}
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in names} <= exported(scheduler)
    of_client = {"gpu", "client", "group", "name", "pid"}
    for rule in rules():
        labels = of_client if "nvshare_client_" in rule["expr"] else {"gpu"}
        labels = {"where"} if "nvshare_internal_errors_" in rule["expr"] else labels
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= labels, rule["alert"]
        assert rule["labels"]["severity"] in ("info", "warning")


def test_every_panel_is_of_the_chosen_nodes_and_calls_gpus_by_a_short_name() -> None:
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["datasource", "node", "gpu"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            series = re.findall(r"nvshare_[a-z_]+", target["expr"])
            assert target["expr"].count('{instance=~"$node"') == len(series), panel["title"]
            assert "{{gpu}}" not in target["legendFormat"], "a UUID is too long for a legend"


def test_panels_do_not_overlap_and_have_names_of_their_own() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not mine & cells, panel["title"]
        assert max(x for x, _ in mine) < 24
        cells |= mine
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_starts_the_scheduler_with_options_that_it_has(unit: Path) -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]
    parsed.read_string(unit.read_text())
    words = shlex.split(parsed["Service"]["ExecStart"].replace("%t", "/run/user/1000"))
    assert words[:2] == ["/usr/bin/env", "nvshare-scheduler"]
    assert load(words[2:], {}).kubernetes == "off"
    assert parsed["Service"]["Type"] == "notify"


def test_the_units_settings_file_names_only_settings_that_there_are() -> None:
    known = {option.variable for option in OPTIONS}
    text = (DEPLOY / "systemd" / "nvshare-scheduler.default").read_text()
    assert set(re.findall(r"^#?(NVSHARE_[A-Z_]+)=", text, re.MULTILINE)) <= known
