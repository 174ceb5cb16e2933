"""`events --follow`: each step is told once, also those that happen while the past lines are made and sent."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nvshare import admin
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.scheduler import pieces
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.operator import past_events
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.pieces import Owner

PAST, MEANWHILE = 20, 200


class Scene:
    """A scheduler in which programs p1, p2, ... register."""

    def __init__(self) -> None:
        self.engine = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop())
        self.journal = Journal(10_000)
        self.engine.observers.append(self.journal.observe)
        self.control = Control(self.engine, self.journal)
        self.programs = 0
        self.register(PAST)

    def register(self, count: int) -> None:
        for _ in range(count):
            self.programs += 1
            name = f"p{self.programs}"
            self.engine.post(ev.ClientRegistered(self.programs, "run/1", "x", name, (Claim("g", 16 * GIB),)))

    @contextlib.asynccontextmanager
    async def followed(self, place: Path) -> AsyncIterator[asyncio.StreamReader]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = admin.GetEvents(last=PAST, follow=True)
            with contextlib.suppress(ConnectionError):
                await self.control.send_events(request, reader, writer, Owner("any"))
            writer.close()

        server = await asyncio.start_unix_server(serve, place / "s")
        reader, writer = await asyncio.open_unix_connection(place / "s", limit=1 << 24)
        yield reader
        writer.close()
        server.close()


@pytest.fixture(autouse=True)
def one_line_in_each_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)


async def told_until(reader: asyncio.StreamReader, program: int) -> list[int]:
    """The programs whose registrations are told, until this one."""
    told: list[int] = []
    while program not in told:
        line = await reader.readline()
        assert line, "the connection was closed"
        told += map(int, re.findall(rb"Client registered: [0-9a-f]+ \(x, pid 0, p([0-9]+)\)", line))
    return told


def test_steps_between_the_past_and_the_present_are_told_once_and_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene()
        async with scene.followed(tmp_path) as reader:
            for _ in range(MEANWHILE):
                scene.register(1)
                await asyncio.sleep(0)
            told = await told_until(reader, scene.programs)
            assert told == list(range(told[0], scene.programs + 1))
            assert len(told) > MEANWHILE
            scene.register(2)
            assert await told_until(reader, scene.programs) == [scene.programs - 1, scene.programs]
        while scene.journal._followers:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 60))


async def until_followed(scene: Scene) -> None:
    while not scene.journal._followers:
        await asyncio.sleep(0)


def test_a_follower_that_does_not_get_its_past_while_very_much_happens_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_events, "MAX_KEPT", 50)

    async def main() -> None:
        scene = Scene()
        async with scene.followed(tmp_path) as reader:
            await until_followed(scene)
            async with scene.control.pieces.turn(Owner("slow")):
                scene.register(60)
                assert not scene.journal._followers
            with contextlib.suppress(ConnectionError):
                assert b"p70" not in await reader.read()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_follower_that_disconnects_before_it_has_its_past_follows_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        scene = Scene()
        async with scene.followed(tmp_path):
            await until_followed(scene)
        while scene.journal._followers:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 60))
