"""Serves the driver's two sockets: its own, and the one by which kubelet finds it.

Kubelet watches its registration directory: it asks each new socket there who it is, and forgets a driver when its
socket is gone. A restarted kubelet asks again, so there is nothing to do then. Each instance has sockets of its own
name, so that in a rolling update the new driver serves before the old one ends; kubelet uses the newest.

A killed driver leaves its sockets, and nobody else would remove them: its name does not come again. A socket that
refuses a connection has no driver. One that is bound but does not listen yet refuses too; its driver serves again."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import grpc

from nvshare.dra.devices import DRIVER
from nvshare.dra.service import registration_handler
from nvshare.inotify import Inotify

log = logging.getLogger(__name__)


class Lifecycle:
    """Keeps the driver registered. `run()` goes on until it is cancelled."""

    def __init__(
        self, handlers: Sequence[grpc.GenericRpcHandler], *, plugins_dir: Path, registry_dir: Path, instance: str
    ) -> None:
        suffix = f"-{instance}" if instance else ""
        self._siblings = (plugins_dir / DRIVER, "dra*.sock"), (registry_dir, f"{DRIVER}*-reg.sock")
        self._handlers = handlers
        self._own = plugins_dir / DRIVER / f"dra{suffix}.sock"
        self._registration = registry_dir / f"{DRIVER}{suffix}-reg.sock"
        self._look = asyncio.Event()

    async def run(self) -> None:
        """Serve, and serve again when a socket has been removed."""
        self._own.parent.mkdir(parents=True, exist_ok=True)
        inotify = Inotify(self._look.set)
        try:
            inotify.watch(self._own.parent)
            inotify.watch(self._registration.parent)
            while True:
                await self._serve()
                log.warning("A socket of the driver was removed; serving again")
        finally:
            inotify.close()

    async def _serve(self) -> None:
        """Own socket first: kubelet calls it as soon as it has found the other."""
        own = await _server(self._own, self._handlers)
        registration = await _server(
            self._registration, [registration_handler(str(self._own), self._note_registration)]
        )
        self._remove_dead_sockets()
        try:
            while self._own.exists() and self._registration.exists():
                self._look.clear()
                await self._look.wait()
        finally:
            self._registration.unlink(missing_ok=True)  # kubelet stops calling before the other socket goes
            await registration.stop(grace=0.5)
            await own.stop(grace=0.5)

    def _remove_dead_sockets(self) -> None:
        for directory, pattern in self._siblings:
            for path in directory.glob(pattern):
                if _is_refused(path):
                    log.info("Removing %s, which a driver that is gone has left", path)
                    path.unlink(missing_ok=True)

    def _note_registration(self, is_registered: bool, error: str) -> None:
        if is_registered:
            log.info("Registered %s with kubelet", DRIVER)
        else:
            log.error("Kubelet refused the registration of %s: %s", DRIVER, error)


def _is_refused(path: Path) -> bool:
    """Whether nobody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False  # it is gone already, or busy
    return False


async def _server(path: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> grpc.aio.Server:
    path.unlink(missing_ok=True)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    return server
