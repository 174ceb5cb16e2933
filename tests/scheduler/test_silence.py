"""Which clients count as hung."""

import asyncio
from collections.abc import Iterator

import pytest

from nvshare.client_machine.library import Config
from nvshare.core.events import ClientRegistered, ClientSilent, Event, LockRequested
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients.silence import SWEEP_S, UNHEARD_SWEEPS, UNTOLD_SWEEPS, SilenceWatch
from nvshare.scheduler.engine import Engine

ALL = Memory(14 * GIB)
MAX_S = 30.0
"""Both ends know within this time that the other one hangs."""


class FakeConnection:
    """A connection to nobody."""

    def __init__(self) -> None:
        self.out: list[bytes] = []
        self.index_of = {"g": 0}
        self.grace_ms = 10_000
        self.sends_ping = True
        self.unheard_sweeps = self.untold_sweeps = 0

    def flush(self) -> None:
        self.out.clear()

    def fail(self, error: Exception) -> None:
        raise error

    def name_of(self, client: int) -> str:
        return str(client)


class Stage:
    """Three clients of a GPU: 1 holds it, 2 waits for it, 3 is at rest."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = Engine(Node(Settings(), epoch=1), loop)
        self.watch = SilenceWatch(self.engine)
        self.found: list[Event] = []
        self.engine.observers_of[ClientSilent].append(lambda step: self.found.append(step.event))
        self.connections = {client: FakeConnection() for client in (1, 2, 3)}
        self.engine.connections.update(self.connections)
        for client in self.connections:
            self.engine.post(ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g", 16 * GIB),)))
        self.engine.post(LockRequested(1, "g", ALL))
        self.engine.post(LockRequested(2, "g", ALL))

    def sweep(self, times: int = UNHEARD_SWEEPS) -> list[Event]:
        for _ in range(times):
            self.watch.sweep()
        return self.found


@pytest.fixture
def stage() -> Iterator[Stage]:
    loop = asyncio.new_event_loop()
    yield Stage(loop)
    loop.close()


def test_a_waiting_client_and_a_contended_holder_that_say_nothing_are_silent_once(stage: Stage) -> None:
    assert stage.sweep(UNHEARD_SWEEPS - 1) == []
    assert stage.sweep(1) == [ClientSilent(1), ClientSilent(2)]
    assert stage.sweep() == [ClientSilent(1), ClientSilent(2)]


def test_a_client_that_is_heard_is_not_silent(stage: Stage) -> None:
    stage.sweep(UNHEARD_SWEEPS - 1)
    stage.connections[1].unheard_sweeps = 0
    assert stage.sweep(1) == [ClientSilent(2)]


def test_a_client_that_was_just_told_something_has_time_to_say_that_it_is_there(stage: Stage) -> None:
    stage.sweep(UNHEARD_SWEEPS - 1)
    stage.connections[2].untold_sweeps = 0
    assert stage.sweep(UNTOLD_SWEEPS - 1) == [ClientSilent(1)]
    assert stage.sweep(1) == [ClientSilent(1), ClientSilent(2)]


def test_a_client_of_a_version_without_ping_is_never_silent(stage: Stage) -> None:
    for connection in stage.connections.values():
        connection.sends_ping = False
    assert stage.sweep() == []


def test_a_client_that_hangs_is_found_within_30_seconds_and_a_living_one_is_not() -> None:
    """The n-th sweep after a message is between n - 1 and n sweep times later."""
    ping_s = Config().silence_ns / 1e9 * 2 / 5
    assert UNHEARD_SWEEPS * SWEEP_S < MAX_S
    assert 2 * ping_s < (UNHEARD_SWEEPS - 1) * SWEEP_S
    assert UNTOLD_SWEEPS * SWEEP_S < MAX_S
    assert 1.5 * ping_s < (UNTOLD_SWEEPS - 1) * SWEEP_S


def test_a_scheduler_that_hangs_is_found_within_30_seconds() -> None:
    assert Config().silence_ns / 1e9 < MAX_S
