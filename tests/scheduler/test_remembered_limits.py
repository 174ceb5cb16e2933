"""The operator's limits outlive the scheduler."""

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from nvshare.core.events import (
    AlarmRang,
    ClientLeft,
    ClientRegistered,
    CoreLimitSet,
    Event,
    GpuTimeAsked,
    LimitSet,
    PauseSet,
    PrioritySet,
    ProcessEnded,
    WeightSet,
)
from nvshare.core.limits.group_order import Order
from nvshare.core.limits.groups import MAX_KEPT
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.operator.ended_processes import EndedProcesses
from nvshare.scheduler.operator.remembered_limits import RememberedLimits


def start(path: Path, settles_at: int | None = 1 << 62) -> Engine:
    """An engine that remembers there, after a restart."""
    engine = Engine(Node(Settings(), epoch=1, settles_at=settles_at), asyncio.new_event_loop())
    RememberedLimits(engine, path).restore()
    return engine


def join(engine: Engine, group: str) -> int:
    """A client of the group comes; its group's limit."""
    engine.post(ClientRegistered(7, group, group, "p", (Claim("g", 16 * GIB),)))
    return engine.node.groups[group].limit


def test_a_limit_set_before_a_restart_holds_after_it(tmp_path: Path) -> None:
    first = start(tmp_path)
    join(first, "run/1")
    first.post(LimitSet("run/1", 4 * GIB))
    assert join(start(tmp_path), "run/1") == 4 * GIB


def test_a_limit_taken_back_stays_taken_back(tmp_path: Path) -> None:
    first = start(tmp_path)
    join(first, "run/1")
    first.post(LimitSet("run/1", 4 * GIB))
    first.post(LimitSet("run/1", None))
    assert join(start(tmp_path), "run/1") == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"run/1": "x"}', b"\xff", b'{"run/\xff": 1}'])
def test_a_file_that_makes_no_sense_is_only_complained_about(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    (tmp_path / "limits.json").write_bytes(content)
    assert join(start(tmp_path), "run/1") == 0
    assert len(said) == 1


@pytest.mark.parametrize("limit", [-5, 1 << 64])
def test_a_limit_out_of_range_is_left_out_with_a_warning(
    tmp_path: Path, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    (tmp_path / "limits.json").write_text(f'{{"run/1": {limit}, "run/2": {GIB}}}')
    engine = start(tmp_path)
    assert (join(engine, "run/1"), engine.node.groups["run/2"].limit) == (0, GIB)
    assert len(said) == 1
    assert f"{limit} is not from 0 to" in said[0]


@pytest.mark.parametrize("field", ["weight", "priority", "core_limit"])
@pytest.mark.parametrize("value", [-(1 << 40), 1 << 40])
def test_an_order_out_of_range_is_left_out_with_a_warning_and_the_others_count(
    tmp_path: Path, field: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    good = {"weight": 300, "priority": -3, "core_limit": 30, "is_paused": True}
    (tmp_path / "orders.json").write_bytes(msgspec.json.encode({"run/1": good | {field: value}, "run/2": good}))
    groups = start(tmp_path).node.groups
    assert groups["run/1"].order == Order(**(good | {field: None}))  # type: ignore[arg-type]
    assert groups["run/2"].order == Order(**good)  # type: ignore[arg-type]
    assert len(said) == 1
    assert f"{value} is not from " in said[0]


def test_a_fifo_in_place_of_the_file_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    os.mkfifo(tmp_path / "limits.json")
    assert join(start(tmp_path), "run/1") == 0
    assert len(said) == 1


def test_a_full_disk_costs_a_line_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    engine = start(tmp_path / "missing")
    join(engine, "run/1")
    engine.post(LimitSet("run/1", 4 * GIB))
    assert engine.node.groups["run/1"].limit == 4 * GIB
    assert len(said) == 1


def test_a_limit_stays_between_two_processes_of_a_run(tmp_path: Path) -> None:
    engine = start(tmp_path)
    join(engine, "run/1")
    engine.post(LimitSet("run/1", 4 * GIB))
    engine.post(ClientLeft(7))
    assert join(engine, "run/1") == 4 * GIB


def test_weight_priority_core_limit_and_pause_hold_after_a_restart(tmp_path: Path) -> None:
    first = start(tmp_path)
    join(first, "run/1")
    orders = WeightSet("run/1", 300), PrioritySet("run/1", -3), CoreLimitSet("run/1", 30), PauseSet(True, "run/1")
    for order in orders:
        first.post(order)
    second = start(tmp_path)
    join(second, "run/1")
    (client,) = snapshot(second.node, 0).clients
    assert (client.weight, client.priority, client.seats[0].state) == (300, -3, "paused")
    assert client.seats[0].core_limit_percent == 30
    second.post(PauseSet(False, "run/1"))
    assert start(tmp_path).node.groups["run/1"].order == Order(300, -3, core_limit=30)


def kept(path: Path, name: str) -> dict[str, object]:
    content = json.loads((path / name).read_text())
    assert isinstance(content, dict)
    return content


def files(path: Path) -> tuple[list[str], list[str]]:
    """The groups in both files."""
    return list(kept(path, "limits.json")), list(kept(path, "orders.json"))


def test_orders_for_a_process_leave_the_files_with_it(tmp_path: Path) -> None:
    engine = start(tmp_path, settles_at=None)
    join(engine, "process/17")
    engine.post(LimitSet("process/17", GIB))
    engine.post(PauseSet(True, "process/17"))
    assert files(tmp_path) == (["process/17"], ["process/17"])
    engine.post(ClientLeft(7))
    assert files(tmp_path) == (["process/17"], ["process/17"]), "it may connect again"
    engine.post(ProcessEnded("process/17"))
    assert files(tmp_path) == ([], [])


@pytest.mark.parametrize("settles_at", [None, 1, 1 << 62])
def test_orders_for_a_process_that_ended_while_the_scheduler_was_away_leave_the_files(
    tmp_path: Path, settles_at: int | None
) -> None:
    (tmp_path / "limits.json").write_text(f'{{"process/17": {GIB}, "run/1": {GIB}}}')
    (tmp_path / "orders.json").write_text('{"process/17": {"is_paused": true}}')
    engine = start(tmp_path, settles_at=settles_at)
    EndedProcesses(engine).sweep()
    assert files(tmp_path) == (["run/1"], ["run/1"])


@pytest.mark.parametrize("event", [AlarmRang(), GpuTimeAsked()])
def test_what_is_forgotten_at_the_end_of_the_settling_time_leaves_the_files(tmp_path: Path, event: Event) -> None:
    (tmp_path / "limits.json").write_text(json.dumps({f"run/{number}": GIB for number in range(MAX_KEPT + 1)}))
    start(tmp_path, settles_at=1).post(event)
    assert len(kept(tmp_path, "limits.json")) == MAX_KEPT


def test_a_group_that_was_forgotten_does_not_come_back(tmp_path: Path) -> None:
    engine = start(tmp_path, settles_at=None)
    engine.post(WeightSet("run/old", 500))
    for number in range(MAX_KEPT):
        engine.post(LimitSet(f"run/{number}", GIB))
    assert "run/old" not in start(tmp_path).node.groups


def test_the_order_of_use_holds_after_a_restart(tmp_path: Path) -> None:
    first = start(tmp_path, settles_at=None)
    for group in ("run/client", "run/order", "run/limit", "run/old", "run/holds"):
        first.post(LimitSet(group, GIB))
    join(first, "run/holds")
    first.post(WeightSet("run/order", 300))
    first.post(ClientRegistered(8, "run/client", "", "", (Claim("g", 16 * GIB),)))
    first.post(ClientLeft(8))
    first.post(PauseSet(True, "run/paused"))
    first.post(LimitSet("run/limit", 2 * GIB))
    used = ["run/old", "run/order", "run/client", "run/paused", "run/limit", "run/holds"]
    assert list(kept(tmp_path, "orders.json")) == used
    second = start(tmp_path)
    assert list(second.node.groups) == used
    second.post(PauseSet(False, "run/old"))
    assert list(kept(tmp_path, "orders.json")) == [*used[1:], "run/old"]
