"""Who is connected, and how many may be: ids, names, and limits per machine, pod and user."""

import resource
import secrets
import time
from collections import Counter

from nvshare.scheduler.identity import Peer, group_of

SPARE_DESCRIPTORS = 64
"""Kept back for files, the operator and the live page when clients use up all others."""
PRICE = 2
"""What a nanosecond of the scheduler's time costs."""
CREDIT_NS = 20_000_000
"""What may be owed: bursts, such as all of a pod's processes registering at once, pass unnoticed."""
FEW = 8
"""Who has no more connections than this may have one of the last eighth: a few pods cannot fill the house together."""
DESCRIPTORS_PER_CLIENT = 2
"""Its socket and its pidfd."""


class RefusedError(Exception):
    """One client too many; the text says of what, and which setting decides."""


class Account:
    """What one pod, container or user takes of the scheduler's time. Each second of work is paid with two, so that
    nobody gets more than half of it for long while others are there; a little may be owed."""

    __slots__ = ("_owes_until", "connections")

    def __init__(self) -> None:
        self.connections = 0
        self._owes_until = 0

    def charge(self, began_ns: int, ended_ns: int) -> None:
        self._owes_until = max(self._owes_until, began_ns) + PRICE * (ended_ns - began_ns)

    def delay_ns(self, now_ns: int) -> int:
        """How long it has to wait until it may be served again."""
        return max(0, self._owes_until - now_ns - CREDIT_NS)


class Clients:
    """The connected clients. `rejected` counts what was closed through the peer's own fault, by kind."""

    def __init__(self, *, most: int, most_per_group: int) -> None:
        self.connections = 0
        self.rejected: Counter[str] = Counter()
        self._most = min(most, self._affordable())
        self._most_per_group = most_per_group
        self._ids: set[int] = set()
        self.is_contested = False
        """Somebody could be held up by somebody else."""
        self._accounts: dict[str, Account] = {}

    @property
    def registered(self) -> int:
        return len(self._ids)

    def admit(self) -> None:
        """Count one connection more."""
        self.connections += 1
        if self.connections > self._most:
            raise RefusedError(f"{self._most} connections are open already (max-clients, or the limit of open files)")

    def identify(self, peer: Peer) -> Account:
        """Count it for its pod, container or user: before it registers, or one could fill the house in silence."""
        holder = _holder_of(peer)
        if holder not in self._accounts:
            self._settle_accounts()
            self._accounts[holder] = Account()
            self.is_contested = len(self._accounts) > 1
        account = self._accounts[holder]
        account.connections += 1
        if account.connections > self._most_per_group:
            raise RefusedError(f"{holder} has {self._most_per_group} connections already (max-clients-per-group)")
        if self.is_contested and account.connections > FEW and self.connections > self._most * 7 // 8:
            raise RefusedError(f"the last of {self._most} connections (max-clients) are for others than {holder}")
        return account

    def leave(self, peer: Peer | None) -> None:
        """One connection less; `peer` if it was counted for one."""
        self.connections -= 1
        if peer is not None:
            self._accounts[_holder_of(peer)].connections -= 1
            self._settle_accounts()

    def _settle_accounts(self) -> None:
        """Forget who has left, unless it still owes: coming back must not be a way to be forgiven."""
        now = time.monotonic_ns()
        gone = [name for name, one in self._accounts.items() if not one.connections and not one.delay_ns(now)]
        for name in gone:
            del self._accounts[name]
        self.is_contested = len(self._accounts) > 1

    def register(self) -> int:
        """An id for a client, short enough to type."""
        width = 16 if len(self._ids) < 1 << 14 else 32
        while True:
            client = secrets.randbits(width)
            if client and client not in self._ids:
                self._ids.add(client)
                return client

    def unregister(self, client: int) -> None:
        self._ids.remove(client)

    @staticmethod
    def _affordable() -> int:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return max(1, (hard - SPARE_DESCRIPTORS) // DESCRIPTORS_PER_CLIENT)


def _holder_of(peer: Peer) -> str:
    return group_of(peer, b"")[0] if peer.pod or peer.container else f"uid/{peer.uid}"
