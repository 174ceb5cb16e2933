"""Lists and watches some objects of the API server: the state now, and every change after it.

One list gives the present state and a version; one watch from that version gives every change after it. A watch ends in
one of five ways, and the next step depends on it:

    normally (the server's timeout)      watch again from the last version seen, at once
    410 Gone                             list again: the version is too old. It may come as the answer's status or,
                                         with status 200, as an ERROR event inside the stream
    429 Too Many Requests                the same request again, after the time that the server says
    another HTTP error                   list again, after a pause
    no connection, connection lost       watch again from the last version, after a pause

A list is answered from the API server's cache, not from etcd: with a field selector etcd has to read all objects of the
cluster, for every node that lists. The first list accepts any version, as kubelet's does; the watch brings what is
newer. A later list accepts nothing older than was seen, or a limit could go back to an earlier value. If the server
does not know the version that was seen (410 or 504: etcd was restored from a backup), the next list asks etcd.

Pauses double from 0.1 s to 30 s, with jitter, so that a thousand nodes do not reconnect at the same time after an
outage. Bookmarks advance the version if the server sends them; they are not needed. There is no polling."""

import asyncio
import logging
import random
from abc import ABC, abstractmethod

import msgspec

from nvshare.kube.annotations import Metadata
from nvshare.kube.client import Api, ApiError
from nvshare.record import Record

log = logging.getLogger(__name__)

_GONE = 410
_TOO_MANY = 429
_VERSION_TOO_LARGE = 504
_WATCH_S = (240, 480)
_SILENCE_GRACE_S = 30
_LASTING_S = 5.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0


class _Versioned(Record, frozen=True):
    metadata: Metadata


class _Change(Record, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(Record, frozen=True):
    code: int = 0
    message: str = ""


_decode_version = msgspec.json.Decoder(_Versioned).decode
_decode_change = msgspec.json.Decoder(_Change).decode
_decode_status = msgspec.json.Decoder(_Status).decode


class ListWatch(ABC):
    """Watches the objects that a field selector names. `run()` goes on until it is cancelled."""

    def __init__(self, api: Api, path: str, field_selector: str, *, what: str, meanwhile: str) -> None:
        self._api = api
        self._path = path
        self._selector = {"fieldSelector": field_selector}
        self._what = what
        self._meanwhile = meanwhile
        self._version = ""
        """The last one seen; kept when a list is needed."""
        self._must_list = True
        self._must_ask_etcd = False
        self._pause_s = 0.0
        self._last_warning = ""
        self.lists = 0
        self.watches = 0

    @abstractmethod
    def listed(self, answer: bytes) -> None:
        """All objects, as the API server's list has them."""

    @abstractmethod
    def changed(self, item: bytes) -> None:
        """An object was added or modified."""

    @abstractmethod
    def deleted(self, item: bytes) -> None:
        """An object is gone."""

    async def run(self) -> None:
        """List, then watch; the end of a watch decides what is next."""
        while True:
            try:
                if self._must_list:
                    await self._list()
                await self._watch()
            except ApiError as error:
                self._must_list = self._must_list or error.status != _TOO_MANY
                why = f"the API server refused: {error}"
                await self._pause(why, at_once=error.status == _GONE, at_least_s=error.retry_after_s)
            except (OSError, TimeoutError) as error:
                await self._pause(f"no API server ({error or type(error).__name__})")
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                self._must_list = True
                await self._pause(f"the API server's answer cannot be read: {error}")

    async def _list(self) -> None:
        self.lists += 1
        oldest = {"resourceVersion": self._version or "0", "resourceVersionMatch": "NotOlderThan"}
        query = self._selector if self._must_ask_etcd else self._selector | oldest
        try:
            answer = await self._api.request("GET", self._path, query)
        except ApiError as error:
            self._must_ask_etcd = error.status in (_GONE, _VERSION_TOO_LARGE)
            raise
        self.listed(answer)
        self._version = _decode_version(answer).metadata.resourceVersion
        self._must_list = self._must_ask_etcd = False

    async def _watch(self) -> None:
        seconds = random.randint(*_WATCH_S)  # noqa: S311 - spreads load, not for security
        query = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        self.watches += 1
        async with self._api.lines(self._path, query, silence_s=seconds + _SILENCE_GRACE_S) as lines:
            self._recovered()
            began = asyncio.get_running_loop().time()
            try:
                async for line in lines:
                    self._handle(_decode_change(line))
            finally:
                # If the server ends every watch at once, the pause grows; a watch that lasted resets it.
                if asyncio.get_running_loop().time() - began > _LASTING_S:
                    self._pause_s = 0.0
        await self._pause("")

    def _handle(self, change: _Change) -> None:
        if change.type == "ERROR":
            status = _decode_status(change.object)
            raise ApiError(status.code, status.message)
        item = bytes(change.object)
        match change.type:
            case "ADDED" | "MODIFIED":
                self.changed(item)
            case "DELETED":
                self.deleted(item)
            case _:
                pass  # BOOKMARK: only a version
        self._version = _decode_version(item).metadata.resourceVersion

    async def _pause(self, why: str, *, at_once: bool = False, at_least_s: int = 0) -> None:
        if why and why != self._last_warning:
            self._last_warning = why
            log.warning("Cannot watch %s: %s; %s", self._what, why, self._meanwhile)
        if why and not at_once:
            self._pause_s = max(_FIRST_PAUSE_S, self._pause_s)
        jitter = random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, not for security
        await asyncio.sleep(max(self._pause_s * jitter, at_least_s * 2 * jitter))
        self._pause_s = min(max(_FIRST_PAUSE_S, self._pause_s * 2), _LONGEST_PAUSE_S)

    def _recovered(self) -> None:
        if self._last_warning:
            self._last_warning = ""
            log.info("Watching %s again", self._what)
