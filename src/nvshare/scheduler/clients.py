"""Who is connected, and how many may be: ids, names, and limits per machine, pod and user."""

import resource
import secrets
from collections import Counter

from nvshare.scheduler.identity import Peer, group_of

SPARE_DESCRIPTORS = 64
"""Kept back for files, the operator and the live page when clients use up all others."""
DESCRIPTORS_PER_CLIENT = 2
"""Its socket and its pidfd."""


class RefusedError(Exception):
    """One client too many; the text says of what, and which setting decides."""


class Clients:
    """The connected clients. `rejected` counts what was closed through the peer's own fault, by kind."""

    def __init__(self, *, most: int, most_per_group: int) -> None:
        self.connections = 0
        self.rejected: Counter[str] = Counter()
        self._most = min(most, self._affordable())
        self._most_per_group = most_per_group
        self._holders: dict[int, tuple[str, str]] = {}
        self._names: dict[int, str] = {}
        self._per_holder: Counter[str] = Counter()

    @property
    def registered(self) -> int:
        return len(self._holders)

    def admit(self) -> None:
        """Count one connection more."""
        self.connections += 1
        if self.connections > self._most:
            raise RefusedError(f"{self._most} connections are open already (max-clients, or the limit of open files)")

    def leave(self) -> None:
        self.connections -= 1

    def register(self, peer: Peer, run: bytes) -> int:
        """An id for a client, short enough to type."""
        group, label = group_of(peer, run)
        holders = (group if peer.pod or peer.container else f"uid/{peer.uid}", group)
        if self._per_holder[holders[0]] >= self._most_per_group:
            raise RefusedError(f"{label} has {self._most_per_group} clients already (max-clients-per-group)")
        client = self._new_id()
        self._holders[client] = holders
        self._names[client] = f"{peer.command} (pid {peer.pid}, {label})"
        self._per_holder[holders[0]] += 1
        return client

    def unregister(self, client: int) -> None:
        holder, _ = self._holders.pop(client)
        del self._names[client]
        self._per_holder[holder] -= 1
        if not self._per_holder[holder]:
            del self._per_holder[holder]

    def name_of(self, client: int) -> str:
        """A client in words, for another client's user; empty if it has gone."""
        return self._names.get(client, "")

    def _new_id(self) -> int:
        width = 16 if len(self._holders) < 1 << 14 else 32
        while True:
            client = secrets.randbits(width)
            if client and client not in self._holders:
                return client

    @staticmethod
    def _affordable() -> int:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return max(1, (hard - SPARE_DESCRIPTORS) // DESCRIPTORS_PER_CLIENT)
