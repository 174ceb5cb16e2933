"""What viewers read is made in pieces by processor time, one piece for all of them in each iteration of the loop."""

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nvshare import admin
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler import pieces
from nvshare.scheduler.clients.connection_admission import Account
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.http.live_feed import Feed
from nvshare.scheduler.observe import step_text
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.names import Ids, Names
from nvshare.scheduler.observe.step_text import describe
from nvshare.scheduler.observe.usage import DAY_S, MOST_ROWS, Period, Usage, Use
from nvshare.scheduler.observe.usage_report import MOST_REPORTED
from nvshare.scheduler.operator import readers
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.operator.past_events import StepLines, Wanted
from nvshare.scheduler.pieces import Owner, Pieces

CLIENTS, STEPS, READERS, STREAMS = 500, 80, 30, 16
DAYS = 80
ANY = Owner("any")
MOST_NS = 50_000_000
"""As for floods of clients."""


def big_step(now: int) -> Step:
    """All clients are told that another one waits, and lose their locks."""
    told = [ac.TellContended(client, "g", True) for client in range(1, CLIENTS // 2)]
    dropped = [ac.DropLock(client, "g", client, "quantum") for client in range(CLIENTS // 2, CLIENTS + 1)]
    return Step(now, float(now), ev.AlarmRang(), (*told, *dropped))


def crowd() -> tuple[Engine, Journal]:
    engine, journal = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop()), Journal(10_000)
    for client in range(1, CLIENTS + 1):
        engine.post(ev.ClientRegistered(client, "run/1", "x", f"holder{client}", (Claim("g", 16 * GIB),)))
    journal.programs.update({client: f"holder{client}" for client in range(1, CLIENTS + 1)})
    for now in range(STEPS):
        journal.observe(big_step(now))
    return engine, journal


@contextlib.asynccontextmanager
async def reading(control: Control, place: Path) -> AsyncIterator[str]:
    """The socket for reading."""
    path = place / "r"
    listening, server = await readers.listen(path, control)
    assert listening is not None
    assert server is not None
    yield str(path)
    server.close()
    listening.close()


async def longest_ns(work: Callable[[], Awaitable[object]]) -> int:
    """The most processor time of the event loop in two iterations, between which clients are served."""
    gc.collect()
    gc.freeze()  # As the scheduler does: what the tests before this one have left is not looked at.
    task = asyncio.ensure_future(work())
    longest, last = 0, time.thread_time_ns()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time_ns()
        longest, last = max(longest, now - last), now
    gc.unfreeze()
    await task
    return longest


def ask_all(path: str, request: admin.Request) -> list[int]:
    """READERS connections ask at the same time; how many lines each of them is answered."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(READERS)]
        for peer in peers:
            peer.settimeout(60)
            peer.connect(path)
        for peer in peers:
            peer.sendall(admin.encode(request))
            peer.shutdown(socket.SHUT_WR)
        with ThreadPoolExecutor(READERS) as threads:
            return list(threads.map(count_lines, peers))


def count_lines(peer: socket.socket) -> int:
    lines = 0
    while text := peer.recv(1 << 20):
        lines += text.count(b"\n")
    return lines


@pytest.mark.parametrize(
    ("request_", "lines"),
    [(admin.GetEvents(last=1000, client="holder3"), 1001), (admin.GetStory("holder3"), 1), (admin.GetStatus(), 1)],
    ids=["events", "story", "status"],
)
def test_readers_of_big_steps_leave_time_to_clients(
    request_: admin.Request, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Account, "delay_ns", lambda self, now: 0)  # Nobody pays: the worst case, and it takes no time.
    monkeypatch.setattr(readers, "MAX_UNREAD_ANSWERS", READERS)  # They are one user's, and read when they get time.

    async def main() -> int:
        async with reading(Control(*crowd()), tmp_path) as path:

            async def ask() -> None:
                assert await asyncio.to_thread(ask_all, path, request_) == [lines] * READERS

            return await longest_ns(ask)

    assert asyncio.run(main()) < MOST_NS


def test_streams_of_big_steps_leave_time_to_clients() -> None:
    async def past(feed: Feed) -> None:
        async with contextlib.aclosing(feed.stream(ANY)) as stream:
            async for text in stream:
                if text.startswith(b"event: status"):
                    return

    async def main() -> int:
        feed = Feed(*crowd())
        return await longest_ns(lambda: asyncio.gather(*(past(feed) for _ in range(STREAMS))))

    assert asyncio.run(main()) < MOST_NS


def test_a_report_of_many_programs_leaves_time_to_clients_and_says_what_it_leaves_out() -> None:
    def restore(usage: Usage) -> None:
        today = int(time.time()) // DAY_S * DAY_S
        for day in range(2, 2 + DAYS):
            period = Period(today - day * DAY_S, DAY_S)
            period.rows = {("1", "p", f"n{day}-{row}", "g"): Use(held_seconds=1.0 + row) for row in range(MOST_ROWS)}
            usage.restore([period])

    async def main() -> tuple[int, admin.AnyAnswer]:
        engine, journal = crowd()
        usage = Usage(engine.node.clients)
        restore(usage)
        answers: list[bytes] = []

        async def ask() -> None:
            answers.append(await Control(engine, journal, "", usage).answer_to(admin.GetReport(1e10, "name"), ANY))

        return await longest_ns(ask), admin.decode_answer(answers[0])

    longest, answer = asyncio.run(main())
    assert longest < MOST_NS
    assert isinstance(answer, admin.Report)
    assert (len(answer.rows), answer.left_out) == (MOST_REPORTED, DAYS * MOST_ROWS - MOST_REPORTED)
    held = sorted((1.0 + row for row in range(MOST_ROWS) for _ in range(DAYS)), reverse=True)
    assert [row.held_seconds for row in answer.rows] == held[:MOST_REPORTED]


def test_one_piece_is_made_in_each_iteration_for_the_viewer_that_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_NS", 0)
    made: list[tuple[int, str]] = []
    iteration = 0

    def work(who: str) -> Iterator[None]:
        for _ in range(3):
            made.append((iteration, who))
            yield

    async def main() -> None:
        nonlocal iteration
        shared = Pieces()
        tasks = [asyncio.create_task(shared.all_of(work(who), ANY)) for who in "abc"]
        while not all(task.done() for task in tasks):
            iteration += 1
            await asyncio.sleep(0)

    asyncio.run(main())
    assert "".join(who for _, who in made) == "abcabcabc"
    assert len({number for number, _ in made}) == len(made), "one piece in each iteration"


def test_a_piece_that_fails_ends_the_turn_and_is_charged() -> None:
    account = Account("uid/1")
    owner = Owner("uid/1", account)

    async def main() -> list[int]:
        shared = Pieces()
        with pytest.raises(ZeroDivisionError):
            await shared.all_of((1 // divisor for divisor in (1, 0)), owner)
        return await shared.all_of([1, 2], owner)

    assert asyncio.run(main()) == [1, 2]
    assert account._owes_until > 0


def test_a_text_is_cut_into_pieces_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4)

    async def main() -> list[bytes]:
        return [text async for text in Pieces().text_of([b"abc", b"", b"de", b"", b"", b"fghij", b""], ANY)]

    assert asyncio.run(main()) == [b"abcde", b"fghij"]


def test_a_step_is_put_into_words_once_for_all_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Step] = []

    def counted(step: Step, names: Ids) -> list[str]:
        described.append(step)
        return describe(step, names)

    monkeypatch.setattr(step_text, "describe", counted)
    journal, told = Journal(100), list[bytes]()
    lines = StepLines(journal, Names(journal.programs, {}, {}), Pieces())
    stops = [lines.watch(Wanted(it), lambda news: told.append(news.text)) for it in (None, None, 3, CLIENTS + 1)]
    journal.observe(big_step(1))
    assert (len(told), len(set(told)), len(described)) == (3, 1, 1)
    for stop in stops:
        stop()
    journal.observe(big_step(2))
    assert len(told) == 3


def test_the_last_lines_of_a_client_are_the_newest_and_oldest_first() -> None:
    async def main(count: int | None, wanted: Wanted) -> list[tuple[float, str]]:
        journal = Journal(100)
        lines = StepLines(journal, Names({}, {}, {}), Pieces())
        for time_s in range(1, 5):
            given = ac.GiveLock(time_s % 2, "g", time_s, True), ac.GiveLock(7, "g", time_s, True)
            journal.observe(Step(time_s, float(time_s), ev.AlarmRang(), given))
        found = await lines.last(count, wanted, ANY)
        return [(line.time, line.text.split()[4]) for line in found]

    assert asyncio.run(main(None, Wanted(0))) == [(2, "0000"), (2, "0007"), (4, "0000"), (4, "0007")]
    assert asyncio.run(main(3, Wanted())) == [(3, "0007"), (4, "0000"), (4, "0007")]
    assert asyncio.run(main(3, Wanted(1, 2.0))) == [(3, "0001"), (3, "0007")]
    assert asyncio.run(main(0, Wanted())) == asyncio.run(main(-1, Wanted())) == []
