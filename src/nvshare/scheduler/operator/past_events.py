"""Steps as lines for nvsharectl: those that are remembered, made in pieces (scheduler.pieces), and each new one."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

from nvshare import admin
from nvshare.admin import client_name
from nvshare.journal import Step
from nvshare.record import Record
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.step_text import clients_of, describe
from nvshare.scheduler.pieces import Owner, Pieces


class Wanted(Record, frozen=True):
    """Which steps: not older than `oldest`, in seconds since 1970, and about this client, or any."""

    client: int | None = None
    oldest: float = 0.0


class Past(NamedTuple):
    """Which steps were asked for, and the lines of those that are remembered."""

    wanted: Wanted
    lines: list[admin.StepLine]


class StepLines:
    """Puts steps into words."""

    def __init__(self, journal: Journal, names: Names, pieces: Pieces) -> None:
        self._journal = journal
        self._names = names
        self._pieces = pieces
        self._news: _News | None = None
        """Of the newest step: all followers get the same lines."""

    async def last(self, count: int | None, wanted: Wanted, owner: Owner) -> list[admin.StepLine]:
        """The newest lines, oldest first; None: all. The time is charged to the owner's account."""
        made = await self._pieces.all_of(self._newest_first(count, wanted), owner)
        return [line for lines in reversed(made) for line in lines]

    def follow(self, wanted: Wanted, tell: Callable[[bytes], None]) -> Callable[[], None]:
        """Call for each new step with its lines as they are sent, until the returned function is called."""

        def see(step: Step) -> None:
            news = self._news
            if news is None or news.step is not step:
                news = self._news = _News(step, self._names)
            if news.is_wanted(wanted) and news.text:
                tell(news.text)

        return self._journal.follow(see)

    def _newest_first(self, count: int | None, wanted: Wanted) -> Iterator[list[admin.StepLine]]:
        """The lines of each step; many steps have none. What exceeds the count is the beginning of the oldest step."""
        left = count
        for step in reversed(self._journal.all()):
            if left is not None and left <= 0:
                return
            lines = self._of(step, wanted)
            if left is not None:
                lines = lines[-left:]
                left -= len(lines)
            yield lines

    def _of(self, step: Step, wanted: Wanted) -> list[admin.StepLine]:
        news = _News(step, self._names)
        return news.lines if news.is_wanted(wanted) else []


class _News:
    """A step that may be told several times: what is computed of it is computed once."""

    def __init__(self, step: Step, names: Names) -> None:
        self.step = step
        self._names = names

    def is_wanted(self, wanted: Wanted) -> bool:
        return self.step.time >= wanted.oldest and (wanted.client is None or wanted.client in self._clients)

    @cached_property
    def lines(self) -> list[admin.StepLine]:
        texts = describe(self.step, self._names)
        called = tuple(map(client_name, sorted(self._clients))) if texts else ()
        return [admin.StepLine(self.step.time, text, called) for text in texts]

    @cached_property
    def text(self) -> bytes:
        return b"".join(map(admin.encode, self.lines))

    @cached_property
    def _clients(self) -> frozenset[int]:
        return clients_of(self.step)
