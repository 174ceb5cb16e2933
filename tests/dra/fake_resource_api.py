"""A fake API server with ResourceSlices, ResourceClaims and a Node, over real HTTP.

List and watch are those of the pods' fake. Writes have the semantics that a publisher meets: a new version for each
object, 409 for a stale one, 404 for one that is gone, quantities written in another form."""

import asyncio
import json
from typing import Any

from kube.fake_apiserver import FakeApiServer

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


class FakeResourceApi(FakeApiServer):
    def __init__(self) -> None:
        super().__init__()
        self.slices = self.pods  # what list and watch serve
        self.claims: dict[str, bytes] = {}
        self.writes: list[tuple[str, str]] = []
        self.keeps_sharing = True
        self.keeps_taints = True
        """False: an API server without the feature, which drops the field."""
        self.refuse_claims: tuple[int, str] | None = None
        """The answer to every request for a claim."""
        self.gate = asyncio.Event()
        """Answers about claims wait for it."""
        self.gate.set()

    def devices(self) -> list[dict[str, Any]]:
        """All published devices, in order."""
        found = sorted(self.slices.items())
        return [device for _, item in found for device in item["spec"]["devices"]]

    def generations(self) -> set[int]:
        return {item["spec"]["pool"]["generation"] for item in self.slices.values()}

    async def remove(self, name: str) -> None:
        """As kubelet does."""
        await self._record("DELETED", self.slices.pop(name))

    async def store(self, item: dict[str, Any]) -> None:
        """As another writer does."""
        name = item["metadata"]["name"]
        item["metadata"].setdefault("uid", f"uid-{name}")
        await self._record("MODIFIED" if name in self.slices else "ADDED", item)
        self.slices[name] = item
        async with self._changed:
            self._changed.notify_all()

    async def _answer(self, http: Any, writer: asyncio.StreamWriter, request: Any, body: bytes) -> None:
        method, path = request.method.decode(), request.target.decode().partition("?")[0]
        if path == SLICES and method == "GET":
            await super()._answer(http, writer, request, body)
            return
        async with self._changed:
            self.requests.append((method, path, {}))
            self._changed.notify_all()
        status, answer = (
            (self.refuse[0], {"message": self.refuse[1]}) if self.refuse else await self._one(method, path, body)
        )
        await self._send(http, writer, status, answer)

    async def _one(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        name = path.rpartition("/")[2]
        if path.startswith("/api/v1/nodes/"):
            return 200, {"metadata": {"name": name, "uid": "uid-of-node"}}
        if "/resourceclaims/" in path:
            await self.gate.wait()
            if self.refuse_claims:
                return self.refuse_claims[0], {"message": self.refuse_claims[1]}
            return (200, json.loads(self.claims[name])) if name in self.claims else (404, {"message": "no such claim"})
        self.writes.append((method, name))
        return await self._write_slice(method, name, body)

    async def _write_slice(self, method: str, name: str, body: bytes) -> tuple[int, Any]:
        if method == "POST":
            name = json.loads(body)["metadata"]["name"]
            if name in self.slices:
                return 409, {"message": "already exists"}
        elif name not in self.slices:
            return 404, {"message": "not found"}
        if method == "GET":
            return 200, self.slices[name]
        if method == "DELETE":
            await self.remove(name)
            return 200, {}
        item = json.loads(body)
        if (
            method == "PUT"
            and item["metadata"].get("resourceVersion") != self.slices[name]["metadata"]["resourceVersion"]
        ):
            return 409, {"message": "the object has been modified"}
        await self.store(self._as_server(item))
        return 200, self.slices[name]

    def _as_server(self, item: dict[str, Any]) -> dict[str, Any]:
        for device in item["spec"]["devices"]:
            memory = device["capacity"]["memory"]
            memory["value"] = f"{int(memory['value'].removesuffix('Mi')) >> 10}Gi"
            for taint in device.get("taints", []):
                taint["timeAdded"] = "2026-01-01T00:00:00Z"
            if not self.keeps_taints:
                device.pop("taints", None)
            if not self.keeps_sharing:
                del device["allowMultipleAllocations"]
        return item
