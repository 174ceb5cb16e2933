"""The members of a shared limit: the budget of each, the sum of all, and what is known of each.

Every figure that a step needs of all members is a running sum, and every set of members that it iterates over is stored
as such a set. So a step costs the same for ten members and for a thousand. `change` keeps the sums, `move` the
sets."""

from collections import OrderedDict
from collections.abc import Iterator


class Share:
    """What one member has of the limit."""

    __slots__ = (
        "asked_at", "bound", "budget", "cap", "client", "foreseen", "home", "keep", "limit_told", "recall",
        "reported", "serial", "used",
    )  # fmt: skip

    def __init__(self, client: int, *, budget: int, used: int, limit_told: int, cap: int) -> None:
        self.client = client
        self.budget = budget
        self.used = self.reported = used
        """What it uses as far as we can tell, and what it last reported of it unasked."""
        self.bound = self.foreseen = max(budget, used)
        """What must be set aside for this member (more than its budget if it uses more, for any reason), and what will
        have to be set aside once an unanswered recall is answered, as far as we know."""
        self.limit_told = limit_told
        self.cap = cap
        """What the process says of itself: its own lower limit; 0 is none."""
        self.serial = 0
        self.keep: int | None = None
        self.recall: int | None = None
        """The serial of a recall that has not been answered."""
        self.asked_at = 0
        self.home: OrderedDict[int, Share] = OrderedDict()

    @property
    def is_exact(self) -> bool:
        """True if the member has this very budget, or will when it has read what is on its way. With a `keep`, ours or
        one of an earlier daemon, it may have less: each free lowers it before we know."""
        return self.keep is None and self.serial > 0


class LimitMembers:
    """All members. Each is in one of five sets, by whether it can grow without asking us.

    | set          | the member                                              | leaves it for           |
    |--------------|---------------------------------------------------------|-------------------------|
    | `loose`      | may use its budget without asking us                    | awaited, when recalled  |
    | `awaited`    | is told to keep no more than it uses; has not answered  | tight, silent           |
    | `tight`      | has answered, or has nothing: it can only shrink        | confirming              |
    | `confirming` | tight, and asked again what it uses                     | tight, silent           |
    | `silent`     | has left a recall unanswered for the recall time        | tight, when it answers  |

    From each a grant of budget leads back to `loose`. `awaited` and `confirming` are in the order of asking."""

    def __init__(self, recall_ns: int) -> None:
        self.by_client: dict[int, Share] = {}
        self.used = self.bound = self.foreseen = 0
        self.is_over = False
        """They used more than the limit when core.limits.memory_limits last looked."""
        self.shrinks: bool | None = None
        """Whether their memory moves when the limit is lowered; None: as the scheduler is set."""
        self.loose: OrderedDict[int, Share] = OrderedDict()
        self.awaited: OrderedDict[int, Share] = OrderedDict()
        self.tight: OrderedDict[int, Share] = OrderedDict()
        self.confirming: OrderedDict[int, Share] = OrderedDict()
        self.silent: OrderedDict[int, Share] = OrderedDict()
        self._recall_ns = recall_ns

    def __len__(self) -> int:
        return len(self.by_client)

    def __iter__(self) -> Iterator[Share]:
        return iter(self.by_client.values())

    def join(self, share: Share) -> None:
        self.by_client[share.client] = share
        self._count(share, 1)
        # A client that comes from another group may have a recall to answer, and is asked again.
        share.home = self.loose if share.bound or share.recall is not None else self.tight
        share.home[share.client] = share

    def leave(self, client: int) -> Share:
        share = self.by_client.pop(client)
        self._count(share, -1)
        del share.home[client]
        return share

    def move(self, share: Share, home: OrderedDict[int, Share]) -> None:
        """Into another set, or to the end of the same one."""
        del share.home[share.client]
        share.home = home
        home[share.client] = share

    def change(self, share: Share, *, budget: int, used: int, keep: int | None) -> None:
        self._count(share, -1)
        share.budget, share.used, share.keep = budget, used, keep
        share.bound = max(budget, used)
        share.foreseen = share.bound if keep is None else max(used, min(budget, keep))
        self._count(share, 1)

    @property
    def next_silence(self) -> int | None:
        """When a member that was asked will count as silent, unless it sends a message before."""
        asked = [next(iter(home.values())).asked_at for home in (self.awaited, self.confirming) if home]
        return min(asked) + self._recall_ns if asked else None

    def note_silence(self, now: int) -> None:
        """Processes that were asked too long ago are not waited for any more."""
        for asked in (self.awaited, self.confirming):
            while asked:
                share = next(iter(asked.values()))
                if now - share.asked_at < self._recall_ns:
                    break
                self.move(share, self.silent)

    def note_life(self, now: int, share: Share) -> None:
        """A message came that is not the answer: the member is slow, or we are slow to read, but it has not stopped."""
        if share.home is self.awaited or share.home is self.confirming:
            share.asked_at = now
            self.move(share, share.home)

    def check(self) -> None:
        """What must hold, in full; for tests."""
        homes = (self.loose, self.awaited, self.tight, self.confirming, self.silent)
        assert sum(len(home) for home in homes) == len(self.by_client)
        for share in self:
            assert share.home[share.client] is share
            assert share.recall is None or share.keep is not None
            assert share.recall is None or 0 < share.recall <= share.serial
            assert (share.home is self.tight) <= (share.recall is None)
        assert self.used == sum(share.used for share in self)
        assert self.bound == sum(max(share.budget, share.used) for share in self)
        assert self.foreseen == sum(share.foreseen for share in self)

    def _count(self, share: Share, sign: int) -> None:
        self.used += sign * share.used
        self.bound += sign * share.bound
        self.foreseen += sign * share.foreseen
