"""Captures under a scheduler that takes the lock back every few milliseconds, on a simulated driver that minds."""

import random
import threading
import time

import pytest
from fake_scheduler import FakeScheduler, Peer
from programs import CHECKS, GIB, Programs

from nvshare.wire.messages import Contended, DropLock, LockOk, LockReleased, ReqLock


class Restless:
    """Gives a lock to who asks and takes it back after a moment, over and over; says that somebody waits, or nobody."""

    def __init__(self, scheduler: FakeScheduler, seed: int) -> None:
        self.scheduler, self.random = scheduler, random.Random(seed)
        self.drops = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        peer, _ = self.scheduler.welcome(timeout=30)
        lock = 0
        try:
            while True:
                if self.await_work(peer) is None:
                    continue
                lock += 1
                peer.send(LockOk(0, self.random.random() < 0.5, lock))
                self.pause(3)
                peer.send(Contended(0, self.random.random() < 0.7))
                self.pause(3)
                peer.send(DropLock(0, 1, 1000, lock))
                self.drops += 1
                peer.expect(LockReleased, timeout=30, such=lambda m: self.remember(peer, m.again))
        except (EOFError, OSError):
            return

    def await_work(self, peer: Peer) -> object:
        """A client that asks, or one that said it would go on."""
        if getattr(peer, "again", False):
            peer.again = False  # type: ignore[attr-defined]
            return True
        message = peer.next(0.2)
        return message if isinstance(message, ReqLock) else None

    def remember(self, peer: Peer, again: bool) -> bool:
        peer.again = again  # type: ignore[attr-defined]
        return True

    def pause(self, most_ms: float) -> None:
        time.sleep(self.random.random() * most_ms / 1000)


@pytest.mark.parametrize(("how", "times", "modes"), [("threads", 600, "400 400 400"), ("legacy", 600, "200 200 200")])
def test_a_thousand_captures_in_all_modes_survive_locks_dropped_at_random(
    on_card: Programs, scheduler: FakeScheduler, how: str, times: int, modes: str
) -> None:
    restless = Restless(scheduler, seed=times)
    done = on_card.run(CHECKS / "lib_capture", str(times), str(2 * GIB), how, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"captures by mode: {modes}" in done.stdout
    assert restless.drops >= 50
