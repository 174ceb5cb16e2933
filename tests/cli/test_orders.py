"""nvsharectl's orders about turns, given to a real scheduler: what they do, what they answer, where they are told."""

import json

import pytest

from nvshare.wire import messages as wire
from support.client import GIB
from support.daemon import Daemon


def state_of(daemon: Daemon, name: str) -> dict[str, object]:
    (client,) = [client for client in daemon.status()["gpus"][0]["clients"] if client["name"] == name]
    return dict(client)


def test_a_paused_program_gives_its_lock_back_and_gets_it_again_when_it_is_resumed(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as client:
        lock = client.take_lock(10 * GIB)
        said = daemon.ctl("pause", "trainer")
        assert said.endswith("were paused by the operator; 1 process now.\n")
        assert client.hear_until(wire.DropLock).lock == lock
        client.release(lock, again=True)
        client.hear_until(wire.WaitForMem)
        assert state_of(daemon, "trainer")["state"] == "paused"
        assert "paused" in daemon.ctl("status")
        assert "the operator paused it" in daemon.ctl("story", "trainer")
        daemon.ctl("resume", "trainer")
        client.hear_until(wire.LockOk)
        told = daemon.ctl("story", "trainer")
        assert "were paused by the operator" in told, "the order is in its story"
        assert "were resumed by the operator" in told


def test_yield_ends_a_turn_only_if_somebody_waits(daemon: Daemon) -> None:
    with daemon.client().register(name=b"first") as first, daemon.client().register(name=b"second") as second:
        lock = first.take_lock(10 * GIB)
        assert daemon.ctl("yield", first.name) == "No program waits for a lock that is held.\n"
        second.request(10 * GIB)
        second.expect(wire.WaitForMem)
        assert daemon.ctl("yield", first.name).endswith("must give the lock back.\n")
        assert first.hear_until(wire.DropLock).lock == lock
        first.release(lock, again=True)
        second.hear_until(wire.LockOk)
        assert "taken back (operator)" in daemon.ctl("events")


def test_weight_and_priority_are_set_and_removed(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer", weight=7):
        assert "set to 300; 1 process now" in daemon.ctl("set-weight", "trainer", "300")
        assert "set to -5; 1 process now" in daemon.ctl("set-priority", "trainer", "-5")
        shown = state_of(daemon, "trainer")
        assert (shown["weight"], shown["priority"]) == (300, -5)
        daemon.ctl("set-weight", "trainer", "none")
        daemon.ctl("set-priority", "trainer", "none")
        shown = state_of(daemon, "trainer")
        assert (shown["weight"], shown["priority"]) == (7, 0)


def test_a_core_limit_is_set_listed_and_removed(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer"):
        assert "core limit 30 % of each GPU; it had 0 % of " in daemon.ctl("core-limit", "trainer", "30%")
        assert state_of(daemon, "trainer")["core_limit_percent"] == 30
        assert " 30%   operator " in daemon.ctl("limits")
        (limit,) = json.loads(daemon.ctl("limits", "-o", "json"))
        assert (limit["core_limit_percent"], limit["core_source"], limit["source"]) == (30, "operator", None)
        assert "Core limit of" in daemon.ctl("events")
        assert "removed; no core limit applies" in daemon.ctl("core-limit", "trainer", "none")
        assert state_of(daemon, "trainer")["core_limit_percent"] == 0
        assert daemon.ctl("limits") == "No limits.\n"


def test_the_policy_of_a_running_scheduler_is_changed(daemon: Daemon) -> None:
    assert daemon.ctl("set-policy", "fair").startswith("Policy set to fair, also for programs that wait now")
    assert daemon.ctl("set-policy", "fair").startswith("Policy was fair already")
    assert daemon.status()["policy"] == "fair"


def test_a_gpu_is_paused_for_all(daemon: Daemon) -> None:
    with daemon.client().register(name=b"trainer") as client:
        uuid = daemon.status()["gpus"][0]["uuid"]
        daemon.ctl("pause", "--gpu", uuid)
        client.request(GIB)
        client.hear_until(wire.WaitForMem)
        assert daemon.status()["gpus"][0]["is_paused"] is True
        daemon.ctl("resume", "--gpu", uuid)
        client.hear_until(wire.LockOk)


@pytest.mark.parametrize(
    "words",
    [
        ["pause"],
        ["pause", "x", "--gpu", "0"],
        ["yield"],
        ["set-weight", "x", "0"],
        ["set-priority", "x", "11"],
        ["core-limit", "x", "0"],
        ["core-limit", "x", "101"],
        ["core-limit", "x"],
    ],
    ids=" ".join,
)
def test_an_order_without_a_clear_target_or_value_is_wrong_usage(daemon: Daemon, words: list[str]) -> None:
    daemon.ctl(*words, code=2)
