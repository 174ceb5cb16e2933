"""What an HTTP answer that is read slowly keeps of the scheduler's memory, as documented in docs/security.md."""

import asyncio
import json
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.http.live_feed import Feed
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.metrics import Metrics

GPUS = tuple(f"GPU-{number:032}" for number in range(4))
CLIENTS = 512
OF_A_PAGE, OF_A_SCRAPE = 220, 4 * 112 + 250
"""Documented: bytes for each client of the GPU that is written; for each client with four GPUs."""
SLACK = 80_000
"""Of a piece."""


def crowd() -> tuple[Engine, Feed, Metrics]:
    """Clients with a group of their own, at all GPUs."""
    engine, journal = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop()), Journal(10)
    engine.observers.append(journal.observe)
    for number in range(1, CLIENTS + 1):
        claims = tuple(Claim(gpu, 16 * GIB) for gpu in GPUS)
        engine.post(
            ev.ClientRegistered(number, f"run/{number}", f"run/{number}", "\ufffd" * 48, claims, pid=number, uid=number)
        )
    metrics = Metrics(ConnectionAdmission(max_connections=1, max_per_account=1))
    return engine, Feed(engine, journal), metrics


def until(text: bytes, pieces: Iterator[bytes]) -> bytes:
    """What comes up to the piece that contains this."""
    heard = b""
    while text not in heard:
        heard += next(pieces)
    return heard


@pytest.mark.skipif("COVERAGE_PROCESS_START" in os.environ or sys.gettrace() is not None, reason="it counts memory")
@pytest.mark.parametrize(
    ("kind", "middle", "documented"),
    [("page", GPUS[2], OF_A_PAGE), ("scrape", "nvshare_client_weight{", OF_A_SCRAPE)],
)
def test_an_answer_that_waits_for_its_reader_keeps_as_little_as_documented(
    kind: str, middle: str, documented: int
) -> None:
    async def main() -> float:
        engine, feed, metrics = crowd()
        make: dict[str, Callable[[], Iterator[bytes]]] = {
            "page": feed.document_pieces,
            "scrape": lambda: metrics.render(engine.outline(), engine.clients()),
        }
        until(middle.encode(), make[kind]())
        tracemalloc.start()
        try:
            pieces = make[kind]()
            until(middle.encode(), pieces)
            return tracemalloc.get_traced_memory()[0] / CLIENTS
        finally:
            tracemalloc.stop()

    kept = asyncio.run(main())
    print(f"{kept:.0f} bytes")
    assert kept < documented + SLACK / CLIENTS


def test_a_page_that_is_read_slowly_tells_each_gpu_as_it_is_when_it_is_written() -> None:
    async def main() -> dict[str, Any]:
        engine, feed, _ = crowd()
        pieces = feed.document_pieces()
        text = until(GPUS[1].encode(), pieces)
        for number in range(2, CLIENTS + 1):
            engine.post(ev.ClientLeft(number, "gone"))
        engine.post(ev.ClientRegistered(CLIENTS + 1, "run/new", "run/new", "x", (Claim(GPUS[3], GIB),)))
        found: dict[str, Any] = json.loads(text + b"".join(pieces))
        return found

    document = asyncio.run(main())
    assert [gpu["uuid"] for gpu in document["gpus"]] == list(GPUS)
    names = [[client["id"] for client in gpu["clients"]] for gpu in document["gpus"]]
    assert len(names[0]) == CLIENTS
    assert names[2:] == [["0001"], ["0001", f"{CLIENTS + 1:04x}"]]


def test_a_gpu_that_has_gone_in_the_middle_of_a_page_is_left_out() -> None:
    async def main() -> list[str]:
        engine, feed, _ = crowd()
        pieces = feed.document_pieces()
        text = until(GPUS[0].encode(), pieces)
        for number in range(1, CLIENTS + 1):
            engine.post(ev.ClientLeft(number, "gone"))
        return [gpu["uuid"] for gpu in json.loads(text + b"".join(pieces))["gpus"]]

    assert asyncio.run(main()) == [GPUS[0]]


def test_steps_that_the_journal_forgets_before_they_are_sent_are_counted_as_lost() -> None:
    async def main() -> dict[str, Any]:
        engine, journal = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop()), Journal(10)
        given = [Step(now, float(now), ev.AlarmRang(), (ac.GiveLock(1, "g", 1, True),)) for now in range(17)]
        for step in given[:10]:
            journal.observe(step)
        steps = Feed(engine, journal)._steps(0, 10, is_past=True)
        next(steps)
        for step in given[10:]:
            journal.observe(step)
        text = b"".join(steps)
        found: dict[str, Any] = json.loads(text.removeprefix(b"event: steps\ndata: "))
        return found

    message = asyncio.run(main())
    assert (message["is_past"], message["lost"], len(message["events"])) == (True, 6, 4)


def test_a_message_of_a_step_about_all_clients_is_made_in_pieces() -> None:
    async def main() -> list[bytes]:
        engine, journal = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop()), Journal(1000)
        drops = tuple(ac.DropLock(client, "g", client, "quantum") for client in range(1, CLIENTS + 1))
        journal.observe(Step(1, 1.0, ev.AlarmRang(), drops))
        return list(Feed(engine, journal)._steps(0, 1))

    pieces = asyncio.run(main())
    whole = json.loads(b"".join(pieces).removeprefix(b"event: steps\ndata: "))
    assert (len(whole["events"]), len(whole["changes"])) == (CLIENTS, CLIENTS)
    assert max(map(len, pieces)) < 10 * CLIENTS
