"""kubectl nvshare against a stand-in kubectl that answers from files and keeps what it was asked."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nvshare.cli.ctl.kubectl_nvshare import cli, show

GIB = 1 << 30


def gpu(uuid: str) -> dict[str, Any]:
    client = {
        "id": "00a1", "group": "pod/u", "label": "team/train", "name": "python", "pid": 7, "gpu": uuid,
        "state": "waiting", "place": 2, "since_seconds": 90.0, "memory_allocated": 3 * GIB, "limit_bytes": 4 * GIB,
        "expected_start_seconds": 40.0,
    }  # fmt: skip
    return {
        "uuid": uuid, "index": 0, "name": "NVIDIA A100",
        "total_memory": 16 * GIB, "running_memory_usage": 2 * GIB, "available_memory": 12 * GIB,
        "running": 1, "waiting": 1, "clients": [client],
    }  # fmt: skip


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two nodes; the scheduler of the second does not answer."""
    pods = [
        {"metadata": {"name": f"scheduler-{at}"}, "spec": {"nodeName": f"node-{at}"}, "status": {"phase": "Running"}}
        for at in (1, 2)
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"items": pods}))
    (tmp_path / "status.json").write_text(json.dumps({"gpus": [gpu("GPU-1")]}))
    program = tmp_path / "kubectl"
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
case "$*" in
  *annotate*forbidden*) echo 'pods "forbidden" is forbidden' >&2; exit 1 ;;
  *annotate*) echo "pod/x annotated" ;;
  *"get pods"*) cat {tmp_path}/pods.json ;;
  *scheduler-1*) cat {tmp_path}/status.json ;;
  *) echo "container not found" >&2; exit 1 ;;
esac
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("KUBECTL", str(program))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def test_status_shows_all_nodes_and_those_that_did_not_answer(kubectl: Path) -> None:
    result = run("status")
    assert result.exit_code == 1
    assert "node-1  0    A100   GPU-1  16.00Gi  2.00Gi   12.00Gi  1    1" in result.output
    assert "team/train  00a1    python  0    waiting 2  1m30s  <40.0s  3.00Gi  4.00Gi" in result.output
    assert "node-2: container not found" in result.output


def test_status_shows_the_claims_of_all_nodes(kubectl: Path) -> None:
    claim = {
        "label": "team/c",
        "uid": "u",
        "gpu": "GPU-1",
        "limit_bytes": 8 * GIB,
        "used_bytes": GIB,
        "pods": ["team/train"],
    }
    (kubectl / "status.json").write_text(json.dumps({"gpus": [gpu("GPU-1")], "claims": [claim]}))
    assert "node-1  team/c  GPU-1  8.00Gi  1.00Gi  team/train" in run("status").output


def test_status_fits_on_a_terminal_and_an_earlier_scheduler_is_shown(kubectl: Path) -> None:
    wide = {**gpu("GPU-11111111-2222"), "name": "NVIDIA A100-SXM4-80GB"}
    old = {name: value for name, value in gpu("GPU-9").items() if name not in ("index", "name")}
    shown = {"a-node-with-a-long-name.example": {"gpus": [wide, old]}}
    for width in (60, 80, 120):
        assert max(map(len, show(shown, width).splitlines())) <= width
    assert "GPU-9" in show(shown, 80)


def test_status_shows_what_pods_got_of_their_share_and_of_their_core_limit() -> None:
    shown = gpu("GPU-1")
    (plain,) = shown["clients"]
    limited = plain | {"state": "blocked", "held_back_by": "core limit", "core_limit_percent": 30}
    limited |= {"gpu_percent": 20.4, "group_gpu_percent": 28.9, "due_percent": 25.0}
    text = show({"node-1": {"gpus": [shown | {"clients": [limited, plain]}]}})
    head, first, second = text.splitlines()[-3:]
    assert head.split()[-3:] == ["LIMIT", "SHARE", "CORE"]
    assert first.split("  ")[-2:] == ["20% of 25%", "29% of 30%"]
    assert ("held back" in first, second.split()[-2:]) == (True, ["-", "-"])
    paused = limited | {"state": "paused", "due_percent": None}
    head, line = show({"node-1": {"gpus": [shown | {"clients": [paused]}]}}).splitlines()[-2:]
    assert head.split()[-2:] == ["LIMIT", "CORE"]
    assert ("paused" in line, "held back" in line) == (True, False)


def test_status_of_one_node_as_json(kubectl: Path) -> None:
    result = run("status", "--node", "node-1", "-o", "json")
    assert result.exit_code == 0
    assert json.loads(result.output)["node-1"]["gpus"][0]["uuid"] == "GPU-1"


def test_a_node_without_scheduler_is_said(kubectl: Path) -> None:
    result = run("status", "--node", "node-9")
    assert result.exit_code == 1
    assert "no scheduler runs on node node-9" in result.output


def test_limit_annotates_with_the_users_kubectl(kubectl: Path) -> None:
    assert run("--context", "prod", "limit", "-n", "team", "train", "8Gi").exit_code == 0
    assert run("limit", "train", "none").exit_code == 0
    assert (kubectl / "asked").read_text().splitlines() == [
        "--context=prod annotate pod train nvshare.com/gpu-memory-limit=8Gi --overwrite -n team",
        "annotate pod train nvshare.com/gpu-memory-limit- --overwrite",
    ]


def test_core_limit_annotates_with_the_users_kubectl(kubectl: Path) -> None:
    assert run("core-limit", "-n", "team", "train", "30").exit_code == 0
    assert run("-n", "team", "core-limit", "train", "none").exit_code == 0
    assert (kubectl / "asked").read_text().splitlines() == [
        "annotate pod train nvshare.com/gpu-core-limit=30 --overwrite -n team",
        "annotate pod train nvshare.com/gpu-core-limit- --overwrite -n team",
    ]


def test_a_core_limit_that_is_no_percentage_is_refused_before_anything_is_asked(kubectl: Path) -> None:
    result = run("core-limit", "train", "130")
    assert result.exit_code == 2
    assert "'130' is not a whole number of percent from 1 to 100" in result.output
    assert not (kubectl / "asked").exists()


def test_a_limit_that_is_none_is_refused_before_anything_is_asked(kubectl: Path) -> None:
    result = run("limit", "train", "8GB")
    assert result.exit_code == 2
    assert "was Gi meant?" in result.output
    assert not (kubectl / "asked").exists()


def test_kubectls_own_refusal_is_passed_on(kubectl: Path) -> None:
    result = run("limit", "forbidden", "8Gi")
    assert result.exit_code == 1
    assert 'pods "forbidden" is forbidden' in result.output
