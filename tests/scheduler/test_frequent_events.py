"""Steps of frequent events are shown if something followed from them."""

import asyncio

from nvshare.core import events as ev
from nvshare.core.actions import GiveLock
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine


def test_a_lock_that_follows_from_a_figure_is_seen_and_a_figure_alone_is_not() -> None:
    """The client was silent, and with its report of GPU time it is heard again."""
    seen: list[Step] = []
    written: list[Step] = []
    engine = Engine(Node(Settings(), epoch=1), asyncio.new_event_loop())
    engine.observers += [seen.append, written.append]
    engine.observers_of_figures.append(written.append)
    posted: list[Step] = []

    def post(event: ev.Event) -> Step:
        posted.append(engine.post(event))
        return posted[-1]

    post(ev.GpuFound("g", 10 * GIB))
    for client in (1, 2):
        post(ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g", 10 * GIB),)))
        post(ev.LockRequested(client, "g", Memory(8 * GIB)))
    post(ev.ClientSilent(2))
    post(ev.LockReleased(1, "g", engine.node.gpus["g"].turns.seats[1].lock, again=False))
    figure = post(ev.GpuTimeReported(1, "g", 0, 1, 0))
    heard = post(ev.GpuTimeReported(2, "g", 0, 1, 0))
    assert figure.actions == ()
    assert [type(action) for action in heard.actions if type(action) is GiveLock] == [GiveLock]
    assert seen == [step for step in posted if step is not figure]
    assert written == posted
