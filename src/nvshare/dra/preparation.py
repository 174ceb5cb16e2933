"""Prepares claims for kubelet, and undoes it.

Both may be repeated: kubelet asks again after an error, after its own restart and after the driver's. What is prepared
is answered from the files, also while the API server is away. Requests about one claim wait for each other: kubelet
gives up on a slow Prepare and sends Unprepare while it still runs.

The claims of one pod may come in one request or in several, at the same time or later. So claims that set memoryMode
are prepared one at a time, each compared with those that are prepared."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import quote
from weakref import WeakValueDictionary

from nvshare.claim_file import PreparedClaim
from nvshare.dra.claims import ClaimError, ResourceClaim, check_memory_mode, is_allocated_on, prepare, read_claim
from nvshare.dra.devices import SharedGpu
from nvshare.dra.prepared_claims import PreparedClaims
from nvshare.kube.client import Api, ApiError
from nvshare.plugin.install import HostDirGoneError

log = logging.getLogger(__name__)

_NOT_FOUND = 404
_PAUSE_S = (0.1, 30.0)


class Preparation:
    """The claims of this node. `changed` is called after the set of prepared claims has changed."""

    def __init__(
        self,
        api: Api,
        node: str,
        gpus: Mapping[str, SharedGpu],
        store: PreparedClaims,
        *,
        install: Callable[[], None],
        changed: Callable[[], None],
        forget_slots: Callable[[], Awaitable[None]],
    ) -> None:
        self._api = api
        self._node = node
        self._gpus = gpus
        """By the name of the device."""
        self.store = store
        self._install = install
        self._changed = changed
        self._forget_slots = forget_slots
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._modes = asyncio.Lock()

    async def prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim | str:
        """The prepared claim, or why it cannot be prepared."""
        async with self._lock(uid):
            try:
                claim = self.store.find(uid)
                if claim is None:
                    return await self._prepare(namespace, name, uid)
                self.store.write_cdi(claim)
                return claim
            except (ApiError, ClaimError, HostDirGoneError, OSError, ValueError) as error:
                log.warning("Claim %s/%s (%s) cannot be prepared: %s", namespace, name, uid, _text(error))
                return _text(error)

    async def _prepare(self, namespace: str, name: str, uid: str) -> PreparedClaim:
        self._install()
        found = await self._read(namespace, name)
        claim = prepare(found, uid=uid, node=self._node, gpus=self._gpus)
        if found.is_for_slots:
            await self._forget_slots()
        async with self._modes if claim.memory_mode is not None else contextlib.nullcontext():
            await self._check_memory_mode(claim, found.pods)
            self.store.add(claim)
        log.info("Prepared claim %s (%s): %s", claim.label, uid, _limits(claim))
        self._changed()
        return claim

    async def _check_memory_mode(self, claim: PreparedClaim, pods: Mapping[str, str]) -> None:
        """Raises ClaimError if a pod of the claim has a claim with another mode."""
        if claim.memory_mode is None:
            return
        for other in self.store.all().values():
            if other.memory_mode not in (None, claim.memory_mode):
                others = await self._read_if_there(other)
                check_memory_mode(claim, pods, other, others.pods if others else ())

    async def unprepare(self, uid: str) -> str:
        """Empty, or why it failed."""
        async with self._lock(uid):
            try:
                was_prepared = self.store.find(uid) is not None
                self.store.remove(uid)
            except (OSError, ValueError) as error:
                log.warning("Claim %s cannot be unprepared: %s", uid, error)
                return _text(error)
        if was_prepared:
            log.info("Unprepared claim %s", uid)
            self._changed()
        return ""

    async def remove_leftovers(self) -> None:
        """Undo what was prepared for claims that are gone: kubelet may have lost its own record of them.

        It returns when every claim that is prepared now has been judged, which needs the API server."""
        unknown = list(self.store.all().values())
        pause_s = _PAUSE_S[0]
        while unknown := [claim for claim in unknown if not await self._is_judged(claim)]:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _PAUSE_S[1])

    async def _is_judged(self, claim: PreparedClaim) -> bool:
        """Look whether the claim is gone, and undo it then; False if the API server does not say."""
        async with self._lock(claim.uid):
            try:
                if self.store.find(claim.uid) is None or not await self._is_gone(claim):
                    return True
                self.store.remove(claim.uid)
            except (ApiError, OSError, ClaimError) as error:
                log.warning("Whether claim %s (%s) is gone is unknown: %s", claim.label, claim.uid, _text(error))
                return False
        log.info("Claim %s (%s) is gone", claim.label, claim.uid)
        self._changed()
        return True

    async def _is_gone(self, claim: PreparedClaim) -> bool:
        found = await self._read_if_there(claim)
        return found is None or not is_allocated_on(found, self._node)

    async def _read_if_there(self, claim: PreparedClaim) -> ResourceClaim | None:
        try:
            found = await self._read(claim.namespace, claim.name)
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return found if found.metadata.uid == claim.uid else None

    async def _read(self, namespace: str, name: str) -> ResourceClaim:
        return read_claim(await self._api.request("GET", _path(namespace, name), {}))

    def _lock(self, uid: str) -> asyncio.Lock:
        return self._locks.setdefault(uid, asyncio.Lock())


def _path(namespace: str, name: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{quote(namespace, safe='')}/resourceclaims/{quote(name, safe='')}"


def _limits(claim: PreparedClaim) -> str:
    return ", ".join(f"{size} bytes of {gpu}" for gpu, size in claim.limits.items())


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
