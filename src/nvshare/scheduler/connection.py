"""One client's connection: frames in, events to the engine; actions from the engine, frames out.

Failure is normal input here. A peer that breaks the protocol, sends half a frame and goes silent, never registers, or
never reads is closed with a reason that is logged and counted; nobody else notices. A peer's death is seen through its
pidfd, so a forked child that still holds the socket does not keep a lock.

A flood slows down only its sender. A peer is read a little at a time, with a turn of the event loop in between, and the
time that its messages take is charged to its pod, container or user (clients.Account); who owes is read later."""

import asyncio
import os
import socket
import time
from typing import cast

from nvshare.core.events import ClientLeft
from nvshare.scheduler import translation
from nvshare.scheduler.clients import Account, Clients, RefusedError
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.identity import IdentityError, Peer, peer_of
from nvshare.scheduler.log import log
from nvshare.scheduler.step import client_name
from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, WireError

MOST_BUFFERED = 1 << 16
"""A peer that lets this many bytes pile up does not read, and is cut off."""
MOST_AT_ONCE = 512
"""Bytes of one peer that are worked on before others have their turn."""
MOST_GPUS = 128
"""More are not on one machine, MIG instances included; a client that names more makes them up."""


_inbox = memoryview(bytearray(MOST_AT_ONCE))
"""Where the kernel puts what comes next, for all connections: it is read before the next one has its turn."""


class ClientConnection(asyncio.BufferedProtocol):
    """A connection on the clients' socket."""

    def __init__(self, engine: Engine, clients: Clients, *, grace_ms: int, patience_s: float) -> None:
        self._engine = engine
        self._clients = clients
        self.grace_ms = grace_ms
        self.index_of: dict[str, int] = {}
        self._patience_s = patience_s
        """How long a peer may take to register, or to finish a frame that it has begun."""
        self._decoder = Decoder(wire.FROM_CLIENT)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._peer: Peer | None = None
        self._client = 0
        self._gpus: tuple[str, ...] = ()
        self._out: list[bytes] = []
        self._account: Account | None = None
        self._impatience: asyncio.TimerHandle | None = None
        self._reason = "closed"

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=MOST_BUFFERED)
        try:
            self._clients.admit()
            self._peer = peer_of(cast("socket.socket", transport.get_extra_info("socket")))
            self._account = self._clients.identify(self._peer)
        except (RefusedError, IdentityError) as error:
            self._close("refused", str(error))
            return
        self._loop.add_reader(self._peer.pidfd, self._peer_ended)
        self._be_impatient("never registered")

    def get_buffer(self, sizehint: int) -> memoryview:
        return _inbox

    def buffer_updated(self, nbytes: int) -> None:
        if self._account is None:
            return  # It was refused, and is being closed.
        data = bytes(_inbox[:nbytes])
        delay_ns = 0
        if self._clients.is_contested:
            delay_ns = self._feed_on(self._account, data)
        else:
            self._feed(data)
        if delay_ns or nbytes == MOST_AT_ONCE:
            self._give_way(delay_ns)

    def _feed_on(self, account: Account, data: bytes) -> int:
        """Work on what came at its sender's expense; how long that one has to wait then."""
        began = time.monotonic_ns()
        self._feed(data)
        ended = time.monotonic_ns()
        account.charge(began, ended)
        return account.delay_ns(ended)

    def _give_way(self, delay_ns: int) -> None:
        """Read on when others have had their turn, and not before what was taken is paid."""
        assert self._transport is not None
        if self._transport.is_closing():
            return
        self._transport.pause_reading()
        if delay_ns:
            self._loop.call_later(delay_ns / 1e9, self._read_on)
        else:
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        try:
            messages = self._decoder.feed(data)
            for message in messages:
                self._take(message)
        except WireError as error:
            self._close("protocol", str(error))
            return
        if not self._client:
            return
        is_mid_frame = self._decoder.is_mid_frame
        if self._impatience is not None and (messages or not is_mid_frame):
            self._impatience.cancel()
            self._impatience = None
        if is_mid_frame and self._impatience is None:
            self._be_impatient("half a frame, then silence")

    def pause_writing(self) -> None:
        # Not here and now: this is called from within a step that sends to others too.
        self._loop.call_soon(self._close, "unread", "does not read what it is sent")

    def connection_lost(self, exc: Exception | None) -> None:
        self._clients.leave(self._peer)
        if self._impatience is not None:
            self._impatience.cancel()
        if self._peer is not None:
            self._loop.remove_reader(self._peer.pidfd)
            os.close(self._peer.pidfd)
        self._leave()

    # From the engine.

    def put(self, frame: bytes) -> None:
        self._out.append(frame)

    def flush(self) -> None:
        if self._transport is not None and self._out:
            self._transport.write(b"".join(self._out))
            self._out.clear()

    def name_of(self, client: int) -> str:
        """As its user knows it: by the name given to it, its pid, and its pod or run."""
        found = self._engine.node.clients.get(client)
        return f"{found.name} (pid {found.pid}, {found.group.label})" if found else ""

    # What messages mean.

    def _take(self, message: wire.Message) -> None:
        event_of = translation.EVENTS.get(type(message))
        if event_of is None:
            self._take_rare(message)
            return
        if not self._client:
            raise WireError(f"{type(message).__name__} before Register")
        index = message.gpu  # type: ignore[attr-defined]
        if index >= len(self._gpus):
            raise WireError(f"{type(message).__name__} for GPU {index}, but {len(self._gpus)} were registered")
        self._engine.post(event_of(self._client, self._gpus[index], message))

    def _take_rare(self, message: wire.Message) -> None:
        if not isinstance(message, wire.Register):
            raise WireError(f"{type(message).__name__} is the operator's: use nvsharectl")
        if self._client:
            raise WireError("second Register")
        assert self._peer is not None
        self._gpus = translation.gpus_of(message)
        self.index_of = {gpu: index for index, gpu in enumerate(self._gpus)}
        if len(self._engine.node.gpus.keys() | self.index_of.keys()) > MOST_GPUS:
            self._close("refused", f"more than {MOST_GPUS} GPUs are named by programs of this machine")
            return
        client = self._clients.register()
        self._client = client
        self._engine.peers[client] = self
        self._engine.post(translation.registration(client, self._peer, message))

    # Ends.

    def _peer_ended(self) -> None:
        self._reason = "process ended"
        self._abort()

    def _be_impatient(self, why: str) -> None:
        self._impatience = self._loop.call_later(self._patience_s, self._close, "silent", why)

    def _close(self, kind: str, reason: str) -> None:
        """End this connection for a reason of its peer's making."""
        if self._transport is None or self._transport.is_closing():
            return
        self._clients.rejected[kind] += 1
        self._reason = reason
        who = f"client {client_name(self._client)}" if self._client else "a connection"
        pid = f" of pid {self._peer.pid} ({self._peer.command})" if self._peer else ""
        log.complain(f"Closing {who}{pid}: {reason}")
        self._abort()

    def _abort(self) -> None:
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        if self._client:
            client, self._client = self._client, 0
            self._out.clear()
            self._clients.unregister(client)
            del self._engine.peers[client]
            self._engine.post(ClientLeft(client, self._reason))
