"""The pods of this node: changes of their settings are posted as events of the core.

While the API server is away nothing is posted: the last limits stay in force. A later list is compared with the known
state and only differences are posted, so the core does not notice a restart of the API server.

A value that cannot be read is reported once; kube.annotations says what is in force instead."""

from collections.abc import Callable

import msgspec

from nvshare.core.events import PodChanged, PodRemoved, PodsListed
from nvshare.kube.annotations import RESOURCE, Complaint, Pod, PodSettings, has_slot, label, node_uid, read_settings
from nvshare.kube.client import Api
from nvshare.kube.list_watch import ListWatch
from nvshare.record import Record

_PODS = "/api/v1/pods"

PodEvent = PodChanged | PodRemoved | PodsListed
Post = Callable[[PodEvent], None]
Complain = Callable[[str, str, Complaint], None]
"""complain(pod_uid, label, complaint)"""


class _List(Record, frozen=True):
    items: list[Pod] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_pod = msgspec.json.Decoder(Pod).decode


class Known(Record, frozen=True):
    """How the API server names a pod."""

    label: str
    api_uid: str


class PodTable:
    """The known pods of the node. Pure: pods in, events out."""

    def __init__(self, post: Post, complain: Complain, resource: str = RESOURCE) -> None:
        self._post = post
        self._resource = resource
        self._complain = complain
        self._settings: dict[str, PodSettings] = {}
        self._complaints: dict[str, list[Complaint]] = {}
        self._has_listed = False
        self.known: dict[str, Known] = {}
        """By the UID that the node uses for a pod."""
        self.sharers: set[str] = set()
        """UIDs of the pods that have a slot."""

    def listed(self, pods: list[Pod]) -> None:
        """All pods of this node, as a list gave them."""
        for uid in self._settings.keys() - {node_uid(pod) for pod in pods}:
            self.removed(uid)
        for pod in pods:
            self.changed(pod)
        if not self._has_listed:
            self._has_listed = True
            self._post(PodsListed())

    def changed(self, pod: Pod) -> None:
        """A pod was added or modified; most modifications concern its status and change nothing here."""
        uid = node_uid(pod)
        self.known[uid] = Known(label=label(pod), api_uid=pod.metadata.uid)
        if has_slot(pod, self._resource):
            self.sharers.add(uid)
        before = self._settings.get(uid)
        settings, complaints = read_settings(pod, before or PodSettings())
        if settings != before:
            self._settings[uid] = settings
            self._post(PodChanged(pod=uid, label=label(pod), **msgspec.structs.asdict(settings)))
        for complaint in complaints:
            if complaint not in self._complaints.get(uid, []):
                self._complain(uid, label(pod), complaint)
        self._complaints[uid] = complaints

    def removed(self, uid: str) -> None:
        """A pod is gone."""
        self._complaints.pop(uid, None)
        self.known.pop(uid, None)
        self.sharers.discard(uid)
        if self._settings.pop(uid, None) is not None:
            self._post(PodRemoved(pod=uid))


class PodWatch(ListWatch):
    """Watches the pods of one node. `run()` goes on until it is cancelled."""

    def __init__(self, api: Api, node: str, *, post: Post, complain: Complain, resource: str = RESOURCE) -> None:
        super().__init__(
            *(api, _PODS, f"spec.nodeName={node}"),
            what="the pods of this node",
            meanwhile="the last limits stay in force",
        )
        self.table = PodTable(post, complain, resource)

    def listed(self, answer: bytes) -> None:
        self.table.listed(_decode_list(answer).items or [])

    def changed(self, item: bytes) -> None:
        self.table.changed(_decode_pod(item))

    def deleted(self, item: bytes) -> None:
        self.table.removed(node_uid(_decode_pod(item)))
