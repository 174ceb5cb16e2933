"""Steps as lines for nvsharectl: those that are remembered, made in pieces (scheduler.pieces), and each new one."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import cached_property

from nvshare import admin
from nvshare.journal import Step
from nvshare.record import Record
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.step_text import clients_of, lines_of
from nvshare.scheduler.pieces import Owner, Pieces

MAX_KEPT = 50_000
"""Steps and their actions that are kept for a follower while its past lines are made and sent."""


class Wanted(Record, frozen=True):
    """Which steps: not older than `oldest`, in seconds since 1970, and about this client, or any."""

    client: int | None = None
    oldest: float = 0.0


class StepLines:
    """Puts steps into words."""

    def __init__(self, journal: Journal, names: Names, pieces: Pieces) -> None:
        self._journal = journal
        self._names = names
        self._pieces = pieces
        self._news: News | None = None
        """Of the newest step: all followers get the same lines."""

    async def last(
        self, count: int | None, wanted: Wanted, owner: Owner, follower: "Follower | None" = None
    ) -> list[admin.StepLine]:
        """The newest lines, oldest first; None: all. The follower gets each step after them. The time is charged to the
        owner's account."""
        made = await self._pieces.all_of(self._newest_first(count, wanted, follower), owner)
        return [line for lines in reversed(made) for line in lines]

    def watch(self, wanted: Wanted, see: "Callable[[News], None]") -> Callable[[], None]:
        """Call for each new step that is wanted, until the returned function is called."""

        def note(step: Step) -> None:
            news = self._news
            if news is None or news.step is not step:
                news = self._news = News(step, self._names)
            if news.is_wanted(wanted):
                see(news)

        return self._journal.follow(note)

    def text_of(self, step: Step) -> bytes:
        return News(step, self._names).text

    def _newest_first(
        self, count: int | None, wanted: Wanted, follower: "Follower | None"
    ) -> Iterator[list[admin.StepLine]]:
        """The lines of each step; many steps have none. What exceeds the count is the beginning of the oldest step."""
        if follower is not None:
            follower.begin()
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
        news = News(step, self._names)
        return news.lines if news.is_wanted(wanted) else []


class News:
    """A step that may be told several times: what is computed of it is computed once."""

    def __init__(self, step: Step, names: Names) -> None:
        self.step = step
        self._names = names

    def is_wanted(self, wanted: Wanted) -> bool:
        return self.step.time >= wanted.oldest and (wanted.client is None or wanted.client in self._clients)

    @cached_property
    def lines(self) -> list[admin.StepLine]:
        return lines_of(self.step, self._names)

    @cached_property
    def text(self) -> bytes:
        return b"".join(map(admin.encode, self.lines))

    @cached_property
    def _clients(self) -> frozenset[int]:
        return clients_of(self.step)


class Follower:
    """Tells a peer each new step. What happens before the past lines are sent is kept until then; `give_up` is called
    if that is too much."""

    def __init__(
        self, lines: StepLines, wanted: Wanted, tell: Callable[[bytes], None], give_up: Callable[[], None]
    ) -> None:
        self._lines = lines
        self._wanted = wanted
        self._tell = tell
        self._give_up = give_up
        self._kept: deque[Step] | None = deque()
        """None: each step is told at once."""
        self._size = 0
        self._stop: Callable[[], None] | None = None

    def begin(self) -> None:
        """The past lines contain all steps until now."""
        self._stop = self._lines.watch(self._wanted, self._see)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()

    def has_more(self) -> bool:
        """There are kept steps. If not, each step is told at once from now on."""
        self._kept = self._kept or None
        return self._kept is not None

    def kept(self) -> Iterator[bytes]:
        """The lines of the kept steps, as they are sent."""
        while self._kept:
            step = self._kept.popleft()
            self._size -= 1 + len(step.actions)
            yield self._lines.text_of(step)

    def _see(self, news: News) -> None:
        if self._kept is None:
            if news.text:
                self._tell(news.text)
            return
        self._kept.append(news.step)
        self._size += 1 + len(news.step.actions)
        if self._size > MAX_KEPT:
            self.stop()
            self._kept.clear()
            self._give_up()
