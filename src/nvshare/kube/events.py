"""Events on pods: what the scheduler has to say, said where the user looks (`kubectl describe pod`).

Posting never waits and never fails the caller. Three bounds keep a busy or broken node from flooding the API server:
the same thing about the same pod is said once per ten minutes, all pods together get a few events a second on average,
and the queue is short. What is dropped is counted."""

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
_MOST_REMEMBERED = 4096
_MOST_MESSAGE = 1000


class PodNote(Record, frozen=True):
    """One thing to say about one pod. `reason` is one CamelCase word; `warning` decides the event's type."""

    pod: str
    label: str
    reason: str
    message: str
    warning: bool = True


class Recorder:
    """Takes notes at any time; `run()` posts them."""

    def __init__(self, api: Api, node: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._node = node
        self._clock = clock
        self._queue: asyncio.Queue[PodNote] = asyncio.Queue(_QUEUE)
        self._said: dict[tuple[str, str, str], float] = {}
        self._tokens = _BURST
        self._refilled = clock()
        self.posted = 0
        self.dropped = 0

    def note(self, note: PodNote) -> bool:
        """Queue a note; False when it is a repetition or there is no room."""
        now = self._clock()
        key = (note.pod, note.reason, note.message)
        if now - self._said.get(key, -_REPEAT_S) < _REPEAT_S:
            return False
        if not self._take_token(now) or self._queue.full():
            self.dropped += 1
            return False
        self._remember(key, now)
        self._queue.put_nowait(note)
        return True

    async def run(self) -> None:
        """Post what is noted, for ever. An event that cannot be posted is dropped: it would be stale later."""
        while True:
            note = await self._queue.get()
            namespace = note.label.partition("/")[0]
            try:
                await self._api.request("POST", f"/api/v1/namespaces/{namespace}/events", {}, self._event(note))
                self.posted += 1
            except (ApiError, OSError, TimeoutError) as error:
                self.dropped += 1
                log.warning("Event %s on pod %s could not be posted: %s", note.reason, note.label, error)

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
            "message": note.message[:_MOST_MESSAGE],
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
        if len(self._said) >= _MOST_REMEMBERED:
            self._said = {old: at for old, at in self._said.items() if now - at < _REPEAT_S}
        while len(self._said) >= _MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said[key] = now
