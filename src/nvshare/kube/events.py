"""Events on pods, which `kubectl describe pod` shows.

Posting never waits and never fails the caller. Three limits protect the API server: the same event on the same pod is
posted once in ten minutes, all pods together get at most five events per second on average (25 at once), and the queue
is short. Dropped events are counted."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

from nvshare.kube.client import Api, ApiError
from nvshare.record import Record

log = logging.getLogger(__name__)

COMPONENT = "nvshare-scheduler"
_QUEUE = 200
_REPEAT_S = 600.0
_PER_SECOND = 5.0
_BURST = 25.0
_MAX_REMEMBERED = 4096
_MAX_MESSAGE = 1000


class PodNote(Record, frozen=True):
    """One event on one pod. `reason` is one CamelCase word; `warning` decides the type."""

    pod: str
    label: str
    reason: str
    message: str
    warning: bool = True


class Recorder:
    """Queues notes; `run()` posts them as events."""

    def __init__(self, api: Api, node: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._queue: asyncio.Queue[PodNote] = asyncio.Queue(_QUEUE)
        self._posted_at: dict[tuple[str, str, str], float] = {}
        self._tokens = _BURST
        self._refilled = clock()
        self.posted = 0
        self.dropped = 0

    def note(self, note: PodNote) -> bool:
        """Queue a note; False if it is a repetition or a limit is reached."""
        now = self._clock()
        key = (note.pod, note.reason, note.message)
        if now - self._posted_at.get(key, -_REPEAT_S) < _REPEAT_S:
            return False
        if not self._take_token(now) or self._queue.full():
            self.dropped += 1
            return False
        self._remember(key, now)
        self._queue.put_nowait(note)
        return True

    async def run(self) -> None:
        """Post the notes until cancelled. An event that cannot be posted is dropped: it would be out of date later."""
        while True:
            note = await self._queue.get()
            namespace = note.label.partition("/")[0]
            try:
                await self._api.request("POST", f"/api/v1/namespaces/{namespace}/events", {}, self._event(note))
                self.posted += 1
            except (ApiError, OSError, TimeoutError) as error:
                self.dropped += 1
                log.warning("Cannot create Event %s on pod %s: %s", note.reason, note.label, error)

    def _event(self, note: PodNote) -> dict[str, object]:
        namespace, _, name = note.label.partition("/")
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name[:200]}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": namespace,
                "name": name,
                "uid": note.pod,
            },
            "reason": note.reason,
            "message": note.message[:_MAX_MESSAGE],
            "type": "Warning" if note.warning else "Normal",
            "source": {"component": COMPONENT, "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _take_token(self, now: float) -> bool:
        self._tokens = min(_BURST, self._tokens + (now - self._refilled) * _PER_SECOND)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _remember(self, key: tuple[str, str, str], now: float) -> None:
        if len(self._posted_at) >= _MAX_REMEMBERED:
            self._posted_at = {old: at for old, at in self._posted_at.items() if now - at < _REPEAT_S}
        while len(self._posted_at) >= _MAX_REMEMBERED:
            del self._posted_at[next(iter(self._posted_at))]
        self._posted_at[key] = now
