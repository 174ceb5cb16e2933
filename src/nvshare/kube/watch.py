"""This node's pods, followed by list and watch; what they ask for is posted as events of the core.

Theory of operation. One list gives the present and a version; one watch from that version gives every change after it.
The watch ends in four ways, and each has its own continuation:

    cleanly (the server's time-out)      watch again from the last version seen, at once
    410 Gone                             list again: the version is too old. It may come as the answer's status or,
                                         with status 200, as an ERROR event inside the stream
    another refusal                      list again, after a pause
    no connection, broken off, silent    watch again from the last version, after a pause

Pauses double from a tenth of a second to half a minute, with jitter, so that a thousand nodes do not return in step
after an outage. Meanwhile nothing is posted: the last limits stay in force. A later list is compared with what we know,
and only differences are posted, so a restart of the API server is invisible to the core. Bookmarks move the version
forward where the server sends them; nothing depends on them. There is no polling anywhere.

A value that cannot be read is complained about once, and the last good one stays."""

import asyncio
import logging
import random
from collections.abc import Callable

import msgspec

from nvshare.core.events import PodChanged, PodRemoved, PodsListed
from nvshare.kube.annotations import Complaint, Metadata, Pod, Wishes, has_slot, label, node_uid, read_wishes
from nvshare.kube.client import Api, ApiError
from nvshare.record import Record

log = logging.getLogger(__name__)

_PODS = "/api/v1/pods"
_GONE = 410
_WATCH_S = (240, 480)
_SILENCE_GRACE_S = 30
_LASTING_S = 5.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 30.0

PodEvent = PodChanged | PodRemoved | PodsListed
Post = Callable[[PodEvent], None]
Complain = Callable[[str, str, str, str, str], None]
"""complain(pod_uid, label, key, value, reason)"""


class _List(Record, frozen=True):
    metadata: Metadata
    items: list[Pod] | None = None


class _Change(Record, frozen=True):
    type: str
    object: msgspec.Raw


class _Status(Record, frozen=True):
    code: int = 0
    message: str = ""


_decode_list = msgspec.json.Decoder(_List).decode
_decode_change = msgspec.json.Decoder(_Change).decode
_decode_pod = msgspec.json.Decoder(Pod).decode
_decode_status = msgspec.json.Decoder(_Status).decode


class Known(Record, frozen=True):
    """How to speak of a pod to the API server."""

    label: str
    api_uid: str


class PodTable:
    """What is known of the node's pods. Pure: pods in, events out."""

    def __init__(self, post: Post, complain: Complain) -> None:
        self._post = post
        self._complain = complain
        self._wishes: dict[str, Wishes] = {}
        self._complaints: dict[str, list[Complaint]] = {}
        self._listed = False
        self.known: dict[str, Known] = {}
        """Pods of this node, by the uid that the node has for them."""
        self.sharers: set[str] = set()
        """Those of them that were given a shared GPU."""

    def listed(self, pods: list[Pod]) -> None:
        """The whole truth of one moment."""
        for uid in self._wishes.keys() - {node_uid(pod) for pod in pods}:
            self.removed(uid)
        for pod in pods:
            self.changed(pod)
        if not self._listed:
            self._listed = True
            self._post(PodsListed())

    def changed(self, pod: Pod) -> None:
        """A pod was added or modified; most modifications are of its status and say nothing new."""
        uid = node_uid(pod)
        self.known[uid] = Known(label=label(pod), api_uid=pod.metadata.uid)
        if has_slot(pod):
            self.sharers.add(uid)
        before = self._wishes.get(uid)
        wishes, complaints = read_wishes(pod, before or Wishes())
        if wishes != before:
            self._wishes[uid] = wishes
            self._post(PodChanged(pod=uid, label=label(pod), **msgspec.structs.asdict(wishes)))
        for complaint in complaints:
            if complaint not in self._complaints.get(uid, []):
                self._complain(uid, label(pod), complaint.key, complaint.value, complaint.reason)
        self._complaints[uid] = complaints

    def removed(self, uid: str) -> None:
        """A pod is gone."""
        self._complaints.pop(uid, None)
        self.known.pop(uid, None)
        self.sharers.discard(uid)
        if self._wishes.pop(uid, None) is not None:
            self._post(PodRemoved(pod=uid))


class PodWatch:
    """Follows the pods of one node for ever. `run()` ends only by being cancelled."""

    def __init__(self, api: Api, node: str, *, post: Post, complain: Complain) -> None:
        self._api = api
        self._selector = {"fieldSelector": f"spec.nodeName={node}"}
        self.table = PodTable(post, complain)
        self._version = ""
        self._pause_s = 0.0
        self._said = ""
        self.lists = 0
        self.watches = 0

    async def run(self) -> None:
        """List, then watch, then whichever the end of the watch calls for."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                self._version = ""
                await self._pause(f"the API server refused: {error}", at_once=error.status == _GONE)
            except (OSError, TimeoutError) as error:
                await self._pause(f"no API server ({error or type(error).__name__})")
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                self._version = ""
                await self._pause(f"the API server's answer makes no sense: {error}")

    async def _list(self) -> None:
        self.lists += 1
        answer = _decode_list(await self._api.request("GET", _PODS, self._selector))
        self.table.listed(answer.items or [])
        self._version = answer.metadata.resourceVersion

    async def _watch(self) -> None:
        seconds = random.randint(*_WATCH_S)  # noqa: S311 - spreads load, guards nothing
        query = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        self.watches += 1
        async with self._api.lines(_PODS, query, silence_s=seconds + _SILENCE_GRACE_S) as lines:
            self._recovered()
            began = asyncio.get_running_loop().time()
            try:
                async for line in lines:
                    self._take(_decode_change(line))
            finally:
                # A server that ends every watch at once must not be hammered; after one that lasted we start afresh.
                if asyncio.get_running_loop().time() - began > _LASTING_S:
                    self._pause_s = 0.0
        await self._pause("")

    def _take(self, change: _Change) -> None:
        if change.type == "ERROR":
            status = _decode_status(change.object)
            raise ApiError(status.code, status.message)
        pod = _decode_pod(change.object)
        match change.type:
            case "ADDED" | "MODIFIED":
                self.table.changed(pod)
            case "DELETED":
                self.table.removed(node_uid(pod))
            case _:
                pass  # BOOKMARK: nothing but a version
        self._version = pod.metadata.resourceVersion

    async def _pause(self, why: str, *, at_once: bool = False) -> None:
        if why and why != self._said:
            self._said = why
            log.warning("Pods of this node are not being followed: %s; the last limits stay in force", why)
        if self._pause_s or not at_once:
            await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        self._pause_s = min(max(_FIRST_PAUSE_S, self._pause_s * 2), _LONGEST_PAUSE_S)

    def _recovered(self) -> None:
        if self._said:
            self._said = ""
            log.info("Pods of this node are being followed again")
