"""The size of a card as its clients report it, for a card that NVML does not report.

All clients of a card see the same size, so a client that reports another size is wrong, or lies. The size that most
clients report counts. If equally many report another one, the size stays as it was."""

from collections import Counter


class StatedSizes:
    """What the clients of one GPU say."""

    def __init__(self) -> None:
        self.size = 0
        self._by_client: dict[int, int] = {}
        self._clients = Counter[int]()
        """How many state each size."""

    def state(self, client: int, size: int) -> int:
        """A client came; the size that counts. A client that does not know the size states 0, which does not count."""
        if size:
            self._by_client[client] = size
            self._clients[size] += 1
        return self._choose()

    def forget(self, client: int) -> int:
        """A client left."""
        size = self._by_client.pop(client, 0)
        if size:
            self._clients[size] -= 1
            if not self._clients[size]:
                del self._clients[size]
        return self._choose()

    def _choose(self) -> int:
        most = max(self._clients.values(), default=0)
        if self._clients[self.size] < most:
            self.size = min(size for size, clients in self._clients.items() if clients == most)
        return self.size
