"""A scheduler that never leaves its client in peace."""

import random
import threading
import time

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from nvshare.wire.messages import Contended, DropLock, LockOk, LockReleased, ReqLock


class Restless:
    """Gives a lock to a client that asks and takes it back after a moment, over and over; says that somebody waits, or
    nobody."""

    def __init__(self, scheduler: FakeScheduler, seed: int) -> None:
        self.scheduler, self.random = scheduler, random.Random(seed)
        self.drops = 0
        self.goes_on = False
        self.holds: list[tuple[int, int]] = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        peer, _ = self.scheduler.welcome(timeout=60)
        lock = given_ns = 0
        try:
            while True:
                if not self.has_work(peer):
                    continue
                self.goes_on = False
                lock += 1
                given_ns = time.monotonic_ns()
                peer.send(LockOk(0, self.random.random() < 0.5, lock))
                self.pause(3)
                peer.send(Contended(0, self.random.random() < 0.7))
                self.pause(3)
                peer.send(DropLock(0, 1, 1000, lock))
                self.drops += 1
                self.goes_on = peer.expect(LockReleased, timeout=60).again
                self.holds.append((given_ns, time.monotonic_ns()))
        except (EOFError, OSError):
            self.holds.append((given_ns, time.monotonic_ns()))

    def has_work(self, peer: LibraryConnection) -> bool:
        """A client that asks, or one that said it would go on."""
        return self.goes_on or isinstance(peer.next(), ReqLock)

    def pause(self, most_ms: float) -> None:
        """A random time that the client works, so that the drop meets it at any point."""
        time.sleep(self.random.random() * most_ms / 1000)
