"""Publishes the node's devices as ResourceSlices, and keeps them as they should be.

Kubelet deletes the node's slices when it starts, and a driver's slices 30 s after it has lost the driver. So the slices
are watched, and written again when they are gone or different. The generation of the pool rises with every change; all
slices of a pool have the same one, and consumers ignore slices with an older one.

In a rolling update two drivers run at the same time. Only the one that has the file lock writes, or each would correct
the other for ever."""

import asyncio
import contextlib
import fcntl
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote

import msgspec

from nvshare.dra.devices import DRIVER, Json
from nvshare.kube.client import Api, ApiError
from nvshare.kube.list_watch import ListWatch
from nvshare.quantity import parse_bytes
from nvshare.record import Record

log = logging.getLogger(__name__)

_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_NOT_FOUND = 404
_REPLACED_MEANWHILE = (_NOT_FOUND, 409)
_PAUSE_S = (0.1, 30.0)
_QUANTITIES = ("value", "default", "min", "max", "step")


class UnsupportedClusterError(RuntimeError):
    """The API server does not know what this driver needs; the text names the remedy."""


class Slice(Record, frozen=True):
    """A slice as the API server has it."""

    version: str
    generation: int
    spec: Json
    """Without the generation; quantities as numbers."""


class Write(Record, frozen=True):
    """One request that brings the slices closer to what they should be."""

    how: Literal["create", "replace", "delete"]
    name: str
    body: Json | None = None


def plan(
    known: Mapping[str, Slice],
    wanted: Sequence[Json],
    node: str,
    owner: Json | None,
    kept: Mapping[str, tuple[Json, Json]] | None = None,
    highest: int = 0,
) -> list[Write]:
    """What to write so that the API server has the wanted specifications. Pure.

    `kept`: by name, a specification that was written, and what the server kept of it: it drops fields of features that
    are off. Writing the same again would change nothing. `highest`: the highest generation that the pool has had."""
    names = {f"{node}-{DRIVER}-{number}": spec for number, spec in enumerate(wanted)}
    newest = max([highest, *(it.generation for it in known.values())])
    as_wanted = {name: normalized(spec) for name, spec in names.items()}
    for name, (written, made) in (kept or {}).items():
        if as_wanted.get(name) == written:
            as_wanted[name] = made
    if {name: it.spec for name, it in known.items()} == as_wanted and len(
        {it.generation for it in known.values()}
    ) <= 1:
        return []
    writes = []
    for name, spec in names.items():
        pool: Any = spec["pool"]
        metadata: Json = {"name": name} | ({"ownerReferences": [owner]} if owner else {})
        if name in known:
            metadata["resourceVersion"] = known[name].version
        body: Json = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": metadata,
            "spec": spec | {"pool": pool | {"generation": newest + 1}},
        }
        writes.append(Write(how="replace" if name in known else "create", name=name, body=body))
    return writes + [Write(how="delete", name=name) for name in known if name not in names]


def normalized(spec: Json) -> Json:
    """A specification so that the API server's form of it is equal to ours: it writes quantities in its own way, and
    adds the time to a taint."""
    made: Any = _normalized(spec)
    made["pool"].pop("generation", None)
    return dict(made)


def _normalized(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _normalized(item, name) for name, item in value.items() if name != "timeAdded"}
    if isinstance(value, list):
        return [_normalized(item, "value" if key == "validValues" else "") for item in value]
    if key in _QUANTITIES and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parse_bytes(value)
    return value


def read_slice(item: Mapping[str, Any]) -> tuple[str, Slice]:
    """The name of a slice of the API server, and what it has."""
    metadata, spec = item["metadata"], item["spec"]
    generation = int(spec["pool"].get("generation", 0))
    return metadata["name"], Slice(version=metadata["resourceVersion"], generation=generation, spec=normalized(spec))


class Publisher(ListWatch):
    """Watches the node's slices and writes them. `keep()` goes on until it is cancelled."""

    def __init__(self, api: Api, node: str, lock: Path) -> None:
        super().__init__(
            *(api, _SLICES, f"spec.driver={DRIVER},spec.nodeName={node}"),
            what="the ResourceSlices of this node",
            meanwhile="they stay as they are",
        )
        self._node = node
        self._lock = lock
        self._owner: Json | None = None
        self._known: dict[str, Slice] = {}
        self._newest: dict[str, int] = {}
        """By name: the newest version seen. The answer to a write may come after the watch has told of a deletion."""
        self._kept: dict[str, tuple[Json, Json]] = {}
        self._highest = 0
        """The highest generation seen. It must not fall when kubelet deletes all slices."""
        self._wanted: Sequence[Json] | None = None
        self._is_listed = False
        self._wake = asyncio.Event()
        self.written = 0
        """How many times the slices have been brought to what they should be."""

    def publish(self, specs: Sequence[Json]) -> None:
        """From now on these are the slices."""
        self._wanted = specs
        self._wake.set()

    # From the API server.

    def listed(self, answer: bytes) -> None:
        items = msgspec.json.decode(answer).get("items") or []
        self._known.clear()
        if self._must_ask_etcd:
            self._newest.clear()  # etcd was restored from a backup: its versions are lower now
        for item in items:
            self._note(item)
        self._is_listed = True
        self._wake.set()

    def changed(self, item: bytes) -> None:
        self._note(msgspec.json.decode(item))
        self._wake.set()

    def deleted(self, item: bytes) -> None:
        self._note(msgspec.json.decode(item), is_deleted=True)
        self._wake.set()

    def _note(self, item: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        name, found = read_slice(item)
        if int(found.version) < self._newest.get(name, 0):
            return
        self._newest[name] = int(found.version)
        self._highest = max(self._highest, found.generation)
        if is_deleted:
            self._known.pop(name, None)
        else:
            self._known[name] = found

    # To the API server.

    async def keep(self, began: Callable[[], None] = lambda: None) -> None:
        """Watch and write. `began` is called when no other driver writes any more. Raises UnsupportedClusterError."""
        with self._lock.open("wb") as file:
            await _locked(file)
            began()
            await self._keep()

    async def _keep(self) -> None:
        tasks = [asyncio.ensure_future(work) for work in (self.run(), self._write_loop())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_loop(self) -> None:
        pause_s = _PAUSE_S[0]
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._wanted is None or not self._is_listed:
                continue
            try:
                await self._write(self._wanted)
                pause_s = _PAUSE_S[0]
            except (ApiError, OSError, TimeoutError) as error:
                log.warning("Cannot write the ResourceSlices of this node: %s; trying again", error or "no answer")
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                pause_s = min(pause_s * 2, _PAUSE_S[1])
                self._wake.set()

    async def _write(self, wanted: Sequence[Json]) -> None:
        if self._owner is None:
            self._owner = await self._node_reference()
        writes = plan(self._known, wanted, self._node, self._owner, self._kept, self._highest)
        for write in writes:
            try:
                await self._perform(write)
            except ApiError as error:
                if error.status not in _REPLACED_MEANWHILE:
                    raise
                await self._read_again(write.name)
                raise
        if writes:
            self.written += 1
            log.info("Published %d ResourceSlices", len(wanted))

    async def _perform(self, write: Write) -> None:
        path = f"{_SLICES}/{quote(write.name, safe='')}"
        if write.how == "delete":
            await self._api.request("DELETE", path, {})
            return  # the watch tells when it is gone
        method, where = ("POST", _SLICES) if write.how == "create" else ("PUT", path)
        assert write.body is not None
        item = msgspec.json.decode(await self._api.request(method, where, {}, write.body))
        self._note(item)
        written: Any = write.body["spec"]
        self._kept[write.name] = normalized(written), read_slice(item)[1].spec
        if not all(device.get("allowMultipleAllocations") for device in item["spec"].get("devices", [])):
            await self._api.request("DELETE", path, {})
            raise UnsupportedClusterError(
                "the API server does not keep allowMultipleAllocations: this driver needs Kubernetes 1.36 or later, or"
                " the feature gate DRAConsumableCapacity; use nvshare-device-plugin on this cluster"
            )

    async def _read_again(self, name: str) -> None:
        try:
            item = msgspec.json.decode(await self._api.request("GET", f"{_SLICES}/{quote(name, safe='')}", {}))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            self._known.pop(name, None)
        else:
            self._note(item)

    async def _node_reference(self) -> Json:
        """The owner of the slices: they go with the Node object."""
        node = msgspec.json.decode(await self._api.request("GET", f"/api/v1/nodes/{quote(self._node, safe='')}", {}))
        uid = node["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid, "controller": True}


async def _locked(file: IO[bytes]) -> None:
    """Wait for the file lock, in a thread that does not hinder the end of the program."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wait() -> None:
        with contextlib.suppress(OSError, RuntimeError):  # the file or the loop was closed meanwhile
            fcntl.flock(file, fcntl.LOCK_EX)
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=wait, name="publisher lock", daemon=True).start()
    await done.wait()
