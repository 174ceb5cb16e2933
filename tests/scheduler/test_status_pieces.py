"""The status of many clients is made in pieces, between which the scheduler does other work."""

import asyncio

import pytest

from nvshare import admin
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.scheduler import pieces
from nvshare.scheduler.clients.connection_admission import Account
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.pieces import Owner

CLIENTS = 20


@pytest.mark.parametrize("account", [None, Account("uid/1")], ids=["operator", "reader"])
def test_other_work_is_done_while_the_status_is_made(monkeypatch: pytest.MonkeyPatch, account: Account | None) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)

    async def run() -> None:
        engine = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop())
        for client in range(1, CLIENTS + 1):
            engine.post(ev.ClientRegistered(client, "run/1", "x", "x", (Claim("g", 16 * GIB),)))
        status = asyncio.create_task(
            Control(engine, Journal(100)).answer_to(admin.GetStatus(), Owner("uid/1", account))
        )
        turns = 0
        while not status.done():
            await asyncio.sleep(0)
            turns += 1
            if turns == 4:
                engine.post(ev.ClientLeft(CLIENTS))
        assert turns >= CLIENTS - 1
        answer = admin.decode_answer(status.result())
        assert isinstance(answer, admin.Status)
        ids = [client.id for client in answer.node.clients]
        assert ids == list(range(1, CLIENTS)), "a client that left meanwhile is not shown"

    asyncio.run(run())
    assert account is None or account._owes_until > 0
