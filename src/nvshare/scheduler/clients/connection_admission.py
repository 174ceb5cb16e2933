"""How many clients may connect, and how much of the scheduler's time each pod, container or user may use.

Limits are counted for the whole machine and for each account: the user in whose slice a program runs, the pod, the
container, or else the user. The last eighth of the connections is reserved for accounts with few of them, so that a few
pods cannot use them all."""

import asyncio
import resource
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable

from nvshare.scheduler.clients.identity import Peer, group_of
from nvshare.scheduler.clients.leaving import Departures

MOST_DESCRIPTORS = 65_536
"""Of this process, unless more clients may connect than these suffice for; as in the systemd unit. A pod cannot state
such a limit, and container runtimes give a million or no limit at all."""
RESERVED_DESCRIPTORS = 192
"""Reserved for operators (at most 32), readers (32), HTTP (72) and OWN_DESCRIPTORS when clients use all others."""
OWN_DESCRIPTORS = 56
"""Standard streams, event loop, listening sockets, locks, journal, NVML's devices, connections to the API server."""
CHARGE_FACTOR = 2
"""A nanosecond of the scheduler's time is charged as this many: an account gets at most 1/CHARGE_FACTOR of the time."""
LOOP_NS = 10_000
"""What the event loop itself needs for a call, about: reading a few bytes, pausing and resuming a connection. It is
charged with each call, because the measured time does not contain it."""
CREDIT_NS = 20_000_000
"""An account may owe this much without a delay: short bursts, such as a pod whose processes all register at once."""
MAX_DEBT_NS = 1_000_000_000
"""No account owes more: after a flood, its other programs wait this long at most."""
FEW_CONNECTIONS = 8
"""An account with no more connections than this may use the reserved last eighth."""
MAX_GPUS = 128
"""No machine has more, MIG instances included; an account that names more invents them."""
MAX_GPUS_OF_ALL = 512
FEW_GPUS = 16
"""An account that names no more GPUs than this may always do so."""
MAX_SEATS = 8192
"""Of an account: pairs of a client and a GPU, as many as 1024 clients of eight GPUs have."""
MAX_SEATS_OF_ALL = 16_384
"""One takes 2.5 KB of the scheduler's memory, or 7.4 KB if each client is in a group of its own: at most 120 MB.
docs/security.md has the sum of all bounds."""
FEW_SEATS = 64
"""An account with no more pairs than this may use the last eighth of all."""
DESCRIPTORS_PER_CLIENT = 2
"""Its socket and its pidfd."""


class RefusedError(Exception):
    """One connection too many; the text says which limit was reached, and which setting changes it."""


class Account:
    """One pod, container or user: its connections, the GPUs that its clients name, and the time that it owes.

    owes_until = max(owes_until, began) + CHARGE_FACTOR * (ended - began), at most MAX_DEBT_NS from now;
    it is served again at owes_until - CREDIT_NS.
    Meanwhile its connections wait in one queue, so that what it gets does not grow with their number.
    """

    __slots__ = ("_owes_until", "_timer", "_waiting", "connections", "gpus", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.connections = 0
        self.gpus: Counter[str] = Counter()
        """How many of its clients name each GPU."""
        self._owes_until = 0
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        """By connection; the first is served next."""
        self._timer: asyncio.Handle | None = None

    def charge(self, began_ns: int, ended_ns: int) -> None:
        owes_until = max(self._owes_until, began_ns) + CHARGE_FACTOR * (ended_ns - began_ns)
        self._owes_until = min(owes_until, ended_ns + MAX_DEBT_NS)

    def delay_ns(self, now_ns: int) -> int:
        """How long it has to wait until it is served again."""
        return max(0, self._owes_until - now_ns - CREDIT_NS)

    @property
    def waiting(self) -> int:
        """How many of its connections wait until the debt is paid."""
        return len(self._waiting)

    def wait(self, connection: Hashable, serve: Callable[[], None]) -> None:
        """Call `serve` when the debt is paid, in the order of the calls."""
        self._waiting[connection] = serve
        if self._timer is None:
            self._set_timer()

    def stop_waiting(self, connection: Hashable) -> None:
        """Of a connection that has ended: only the number of open ones is limited."""
        self._waiting.pop(connection, None)

    def _set_timer(self) -> None:
        delay_s = self.delay_ns(time.monotonic_ns()) / 1e9
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._serve_next)

    def _serve_next(self) -> None:
        self._timer = None
        if not self._waiting:
            return  # All of them have ended.
        try:
            self._waiting.pop(next(iter(self._waiting)))()
        finally:  # a failure with one of its connections does not stop the others
            if self._waiting and self._timer is None:
                self._set_timer()


class ConnectionAdmission:
    """Counts the open connections. `rejected` counts those that were closed because of their peer, by reason."""

    def __init__(self, *, max_connections: int, max_per_account: int) -> None:
        self.connections = 0
        self.rejected: Counter[str] = Counter()
        self.seats = 0
        """Pairs of a client and a GPU."""
        self._max_connections = min(max_connections, _limit_descriptors(max_connections))
        self._max_per_account = max_per_account
        self._ids: dict[int, Account] = {}
        """The accounts of the registered clients."""
        self.has_several_accounts = False
        """One account could delay another, so time is charged."""
        self._accounts: dict[str, Account] = {}
        self._ending: dict[int, Callable[[], None]] = {}
        self._departures = Departures()

    @property
    def registered(self) -> int:
        return len(self._ids)

    def admit(self) -> None:
        """Count one more connection for the machine."""
        self.connections += 1
        if self.connections > self._max_connections:
            raise RefusedError(
                f"{self._max_connections} connections are open already (max-clients, or the limit of open files)"
            )

    def account_of(self, peer: Peer) -> Account:
        """The account of a peer, with one more connection. Before it registers: silent connections count too."""
        name = _account_name(peer)
        if name not in self._accounts:
            self._forget_accounts()
            self._accounts[name] = Account(name)
            self.has_several_accounts = len(self._accounts) > 1
        account = self._accounts[name]
        account.connections += 1
        return account

    def charge(self, account: Account, began_ns: int) -> None:
        """Charge the time of a call of the event loop to the account, if there are other accounts."""
        if self.has_several_accounts:
            account.charge(began_ns - LOOP_NS, time.monotonic_ns())

    def charge_clients(self, began_ns: int, ended_ns: int, parts: Counter[int]) -> None:
        """Charge a time that was spent for several clients to their accounts, in parts."""
        if not self.has_several_accounts:
            return
        by_account: Counter[Account] = Counter()
        for client, part in parts.items():
            account = self._ids.get(client)
            if account is not None:
                by_account[account] += part
        for account, part in by_account.items():
            account.charge(began_ns, began_ns + (ended_ns - began_ns) * part // parts.total())

    def admit_to(self, account: Account) -> None:
        """Refuse the connection that was just counted if the account has too many."""
        if account.connections > self._max_per_account:
            raise RefusedError(
                f"{account.name} has {self._max_per_account} connections already (max-clients-per-group)"
            )
        is_reserved = self.connections > self._max_connections * 7 // 8
        if is_reserved and self.has_several_accounts and account.connections > FEW_CONNECTIONS:
            raise RefusedError(
                f"the last eighth of {self._max_connections} connections (max-clients) is reserved for others than"
                f" {account.name}, which has {account.connections - 1}"
            )

    def admit_gpus(self, account: Account, gpus: Collection[str], known: int) -> None:
        """Count a client's GPUs for its account, of `known` that there are by all. Without NVML it is not known which
        of them exist, so each account may name as many as a machine can have, and all together a few times as many."""
        named = len(account.gpus.keys() | set(gpus))
        if named > MAX_GPUS:
            raise RefusedError(f"the programs of {account.name} name more than {MAX_GPUS} GPUs")
        if known >= MAX_GPUS_OF_ALL and named > FEW_GPUS:
            raise RefusedError(f"{known} GPUs are named already; {account.name} may name only {FEW_GPUS}")
        self._admit_seats(account, len(gpus))
        account.gpus.update(gpus)

    def _admit_seats(self, account: Account, more: int) -> None:
        """Count pairs of a client and a GPU, for the account and for the machine."""
        own, places = account.gpus.total() + more, "places at GPUs (clients * GPUs)"
        if own > MAX_SEATS:
            raise RefusedError(f"the programs of {account.name} may have {MAX_SEATS} {places}, and {own} are wanted")
        seats = self.seats + more
        if seats > MAX_SEATS_OF_ALL:
            raise RefusedError(f"all programs together may have {MAX_SEATS_OF_ALL} {places}, and {seats} are wanted")
        if seats > MAX_SEATS_OF_ALL * 7 // 8 and own > FEW_SEATS:
            raise RefusedError(
                f"the last eighth of {MAX_SEATS_OF_ALL} {places} is reserved for accounts with at most {FEW_SEATS};"
                f" {account.name} wants {own}"
            )
        self.seats = seats

    def forget_gpus(self, account: Account, gpus: Collection[str]) -> None:
        """A client of the account that names these GPUs has left."""
        self.seats -= len(gpus)
        account.gpus.subtract(gpus)
        account.gpus = +account.gpus

    def release(self, connection: Hashable, peer: Peer | None) -> None:
        """One connection less; `peer` if it was counted for one. What it sent and waits to be handled is forgotten."""
        self.connections -= 1
        if peer is not None:
            account = self._accounts[_account_name(peer)]
            account.connections -= 1
            account.stop_waiting(connection)
            self._forget_accounts()

    def _forget_accounts(self) -> None:
        """Forget accounts without connections, unless they still owe time: reconnecting must not cancel a debt."""
        now = time.monotonic_ns()
        gone = [name for name, one in self._accounts.items() if not one.connections and not one.delay_ns(now)]
        for name in gone:
            del self._accounts[name]
        self.has_several_accounts = len(self._accounts) > 1

    def end(self, account: Account | None, end: Callable[[], None]) -> None:
        """A connection of this account ends: do what is to be done, at once or a little later, at its expense."""

        def do() -> None:
            began = time.monotonic_ns()
            end()
            if account is not None:
                self.charge(account, began)

        self._departures.do(do)

    def note_ending(self, pid: int, leave: Callable[[], None]) -> None:
        """The connection of a process that ends is closed, and its client stays until `leave`; one for each process."""
        self.end_earlier(pid)
        self._ending[pid] = leave

    def end_earlier(self, pid: int) -> None:
        """The process has registered again, or is gone: what it held before counts no longer."""
        leave = self._ending.pop(pid, None)
        if leave is not None:
            leave()

    def new_client_id(self, account: Account) -> int:
        """An unused id, short enough to type, for a client of this account."""
        width = 16 if len(self._ids) < 1 << 14 else 32
        while True:
            client = secrets.randbits(width)
            if client and client not in self._ids:
                self._ids[client] = account
                return client

    def free_client_id(self, client: int) -> None:
        del self._ids[client]


def _limit_descriptors(clients: int) -> int:
    """Limit the open files of this process to what these clients need, but at least to MOST_DESCRIPTORS, and at most to
    what it was given; how many clients that allows. It cannot be raised again."""
    _, given = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(given, max(MOST_DESCRIPTORS, clients * DESCRIPTORS_PER_CLIENT + RESERVED_DESCRIPTORS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return max(1, (most - RESERVED_DESCRIPTORS) // DESCRIPTORS_PER_CLIENT)


def _account_name(peer: Peer) -> str:
    """A user's subordinate uids and rootless containers are in the user's slice: they are one account with the user."""
    if peer.slice_uid is not None:
        return f"uid/{peer.slice_uid}"
    return group_of(peer, b"")[0] if peer.pod or peer.container else f"uid/{peer.uid}"
