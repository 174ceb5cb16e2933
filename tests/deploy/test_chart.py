"""The chart and what is rendered from it. Without helm, only the rendered files and the schema are checked."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import render

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")
HELM = render.find_helm()
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not available (tools/cluster/build-helm.sh builds it)")


def documents(text: str) -> Iterator[dict[str, Any]]:
    return (document for document in yaml.safe_load_all(text) if document)


def template(*settings: str) -> list[dict[str, Any]]:
    assert HELM is not None
    return list(documents(render.template(HELM, *settings)))


def one(items: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [item for item in items if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found


def container(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return dict(one(items, "DaemonSet", name)["spec"]["template"]["spec"]["containers"][0])


@needs_helm
def test_the_rendered_manifests_are_not_stale() -> None:
    tool = [sys.executable, str(DEPLOY / "render.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_rendered_manifests_ask_for_no_more_than_they_need() -> None:
    items = [item for path in sorted(render.MANIFESTS.glob("*.yaml")) for item in documents(path.read_text())]
    role = one(items, "ClusterRole", "nvshare-scheduler")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ]
    namespace = one(items, "Namespace", "nvshare-system")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert one(items, "DaemonSet", "nvshare-scheduler")["spec"]["template"]["spec"]["hostPID"] is True
    plugin = one(items, "DaemonSet", "nvshare-device-plugin")["spec"]["template"]["spec"]
    assert plugin["automountServiceAccountToken"] is False
    assert "hostPID" not in plugin
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        context = container(items, name)["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True


def test_every_setting_of_the_chart_is_one_the_programs_know() -> None:
    from nvshare.config import OPTIONS
    from nvshare.plugin.main import main as plugin

    known = {option.variable for option in OPTIONS}
    known |= {str(parameter.envvar) for parameter in plugin.params}
    items = [item for path in render.MANIFESTS.glob("*.yaml") for item in documents(path.read_text())]
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        names = {entry["name"] for entry in container(items, name)["env"]}
        assert {name for name in names if name.startswith("NVSHARE_")} <= known


def test_every_value_has_a_place_in_the_schema() -> None:
    schema = json.loads((DEPLOY / "chart" / "values.schema.json").read_text())
    values = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text())

    def missing(value: Any, allowed: dict[str, Any], path: str) -> list[str]:
        if not isinstance(value, dict) or "properties" not in allowed:
            return []
        found = [f"{path}{key}" for key in value if key not in allowed["properties"]]
        for key in value.keys() & allowed["properties"].keys():
            found += missing(value[key], allowed["properties"][key], f"{path}{key}.")
        return found

    assert missing(values, schema, "") == []


@needs_helm
@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ("scheduler.polcy=fair", "polcy"),
        ("scheduler.policy=random", "policy"),
        ("devicePlugin.virtualDevices=0", "virtualDevices"),
        ("paths.operator=/var/run/nvshare", "must not be in a pod"),
        ("paths.operator=/var/run/nvshare/operator", "must not be in a pod"),
        ("draDriver.enabled=true", "devicePlugin.enabled=false"),
        ("draDriver.oversubscription=0", "oversubscription"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_or_remedy(setting: str, remedy: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        template(setting)
    assert remedy in refusal.value.stderr


@needs_helm
def test_reserving_cards_asks_nvidias_plugin_and_shows_no_others() -> None:
    made = container(template("coexist.mode=reserve", "coexist.gpus=2"), "nvshare-device-plugin")
    assert made["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert "NVIDIA_VISIBLE_DEVICES" not in {entry["name"] for entry in made["env"]}
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        template("coexist.mode=reserve", "devicePlugin.gpus=0")
    assert "coexist.gpus" in refusal.value.stderr


def test_the_metrics_port_is_open_to_nvshares_and_monitorings_pods_only() -> None:
    (policy,) = documents((render.MANIFESTS / "networkpolicy.yaml").read_text())
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9464}]
    assert rule["from"] == [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
    ]


def test_every_document_names_the_port_of_the_chart() -> None:
    port = yaml.safe_load((DEPLOY / "chart" / "values.yaml").read_text())["metrics"]["port"]
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *(DEPLOY / "systemd").iterdir()]
    named = re.compile(r"(?:--http |NVSHARE_HTTP=|http://|[Pp]ort )(?:[0-9.]+:|localhost:|\[::1\]:|:)?([0-9]{4,5})\b")
    found = {(page.name, int(text)) for page in pages for text in named.findall(page.read_text())}
    assert {page for page, _ in found} >= {"README.md", "use.md", "kubernetes.md", "nvshare-scheduler.default"}
    assert {number for _, number in found} == {port}


@needs_helm
def test_optional_parts_appear_when_asked_for() -> None:
    kinds = {item["kind"] for item in template("metrics.serviceMonitor.enabled=true")}
    assert {"ServiceMonitor", "Service"} <= kinds
    assert not {"ServiceMonitor", "Namespace"} & {item["kind"] for item in template()}
    assert "NetworkPolicy" not in {item["kind"] for item in template("networkPolicy.enabled=false")}
    pod = one(template("runtimeClassName=nvidia"), "DaemonSet", "nvshare-scheduler")["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"
    quiet = container(template("metrics.enabled=false"), "nvshare-scheduler")
    assert "ports" not in quiet
    assert "NVSHARE_HTTP" not in {entry["name"] for entry in quiet["env"]}


def test_the_image_pins_everything_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["kubernetes"]]
    lines = (DEPLOY / "image" / "requirements.txt").read_text().splitlines()
    pinned = {_plain(line.partition("==")[0]) for line in lines if "==" in line}
    assert {_plain(re.split(r"[<>=!~ \[;]", entry)[0]) for entry in needed} <= pinned


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def test_chart_image_and_package_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((DEPLOY / "chart" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


@pytest.mark.parametrize("path", sorted((DEPLOY / "examples").glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_pods_that_share(path: Path) -> None:
    for item in documents(path.read_text()):
        assert item["kind"] == "Pod"
        assert item["spec"]["containers"][0]["resources"]["limits"]["nvshare.com/gpu"] >= 1


def test_the_image_gets_every_directory_that_the_wheel_is_made_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    copied = re.findall(r"^COPY (\S+) \./\S+$", (DEPLOY / "image" / "Dockerfile").read_text(), re.MULTILINE)
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]) <= set(copied)


@needs_helm
def test_the_operator_can_allow_annotations_above_claims() -> None:
    for settings, value in (((), "refuse"), (("scheduler.annotationAboveClaim=allow",), "allow")):
        env = container(template(*settings), "nvshare-scheduler")["env"]
        assert {"name": "NVSHARE_ANNOTATION_ABOVE_CLAIM", "value": value} in env
