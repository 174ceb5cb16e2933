"""libnvshare's gate and account once more, in Python: the same states and transitions as gate.c and account.c.

It is kept this close on purpose. What the worlds find out about this file is true of the C files, and a change there
belongs here too."""

from enum import Enum, auto

from nvshare.core.model import UNLIMITED


class State(Enum):
    JOINING = auto()
    NONE = auto()
    WAITING = auto()
    HOLDING = auto()
    DRAINING = auto()
    FREE = auto()
    UNSHARED = auto()
    ORPHANED = auto()


OPEN = (State.HOLDING, State.FREE, State.UNSHARED)


class Turn:
    """One process's turn on one GPU."""

    __slots__ = ("contended", "lock", "said_idle", "state")

    def __init__(self) -> None:
        self.state = State.JOINING
        self.lock = 0
        self.contended = False
        self.said_idle = False
        """The registration claimed nothing here: what was begun since is not kept when it is answered."""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    def want(self) -> bool:
        """True: send REQ_LOCK."""
        if self.state is not State.NONE:
            return False
        self.state = State.WAITING
        return True

    def claim(self) -> State:
        """For a registration."""
        self.said_idle = not self.is_open and self.state is not State.DRAINING
        if self.said_idle:
            return State.NONE
        return State.UNSHARED if self.state in (State.UNSHARED, State.FREE) else State.HOLDING

    def given(self, lock: int, contended: bool) -> None:
        if self.state is not State.FREE:
            self._become(State.HOLDING, lock)
            self.contended = contended

    def drop(self, lock: int) -> bool:
        """True: drain, then call `drained`."""
        return self.lock == lock and self.give_back()

    def give_back(self) -> bool:
        """Without being asked (`nvs_turn_yield`). True: drain, then call `drained`."""
        if self.state is not State.HOLDING:
            return False
        self.state = State.DRAINING
        return True

    def drained(self, wanted: bool) -> int | None:
        """The number to send LOCK_RELEASED for."""
        if self.state is not State.DRAINING:
            return None
        lock = self.lock
        self._become(State.WAITING if wanted else State.NONE)
        return lock

    def scheduling_on(self, first: bool) -> None:
        if first and not self.said_idle and self.state in (State.HOLDING, State.UNSHARED):
            return
        self._become(State.NONE)

    def scheduling_off(self) -> None:
        self._become(State.FREE)

    def lost(self) -> None:
        self.contended = False
        if self.state is State.DRAINING:
            self.state = State.HOLDING
        elif self.state in (State.NONE, State.WAITING):
            self.state = State.ORPHANED
        elif self.state is State.FREE:
            self.state = State.UNSHARED

    def expired(self) -> None:
        if self.state in (State.JOINING, State.ORPHANED):
            self.state = State.UNSHARED

    def _become(self, state: State, lock: int = 0) -> None:
        self.state, self.lock, self.contended, self.said_idle = state, lock, False, False


class Account:
    """One process's memory on one GPU and what it may have."""

    __slots__ = ("budget", "keep", "limit", "used")

    def __init__(self, own_limit: int) -> None:
        self.limit = own_limit
        self.budget = UNLIMITED
        self.keep = UNLIMITED
        self.used = 0

    def reserve(self, size: int) -> bool | None:
        """True: allocated. False: refused. None: ask for more budget first."""
        if self.limit and self.used + size > self.limit:
            return False
        if self.limit and self.used + size > self.budget:
            return None
        self.used += size
        return True

    def free(self, size: int) -> None:
        self.used -= size
        self._fall()

    def grant(self, budget: int) -> None:
        self.budget, self.keep = budget, UNLIMITED

    def recall(self, keep: int) -> None:
        if keep < self.budget:
            self.keep = keep
            self._fall()

    def _fall(self) -> None:
        if self.keep != UNLIMITED:
            self.budget = max(self.used, self.keep)
