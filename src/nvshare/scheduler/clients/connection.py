"""One client's connection: frames in, events to the engine; actions from the engine, frames out.

Failures of a peer are expected. A connection that breaks the protocol, stops in the middle of a frame, never registers
or never reads is closed; the reason is logged and counted, and other connections are not affected. A connection that
cannot be served because of a defect outside of the core is closed too. The end of a process is detected by its pidfd,
so a forked child that still holds the socket does not keep a lock.

The memory of a process counts until the kernel has freed it: if the connection is closed because the process ends, its
client stays until the pidfd is readable. A process whose first thread has ended looks the same, so this is bounded: one
client of each process, for ENDING_S; it counts as hung. A process that closes its connection and continues has left.

A flood slows down only its sender. The time that connecting and each message take is charged to the sender's account
(connection_admission.Account). At most MAX_READ bytes are read at once and at most MAX_WORK_NS is spent on them, then
the event loop serves others. While the account owes time, what was read waits and the connection is not read."""

import asyncio
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from nvshare import translation
from nvshare.admin import client_name
from nvshare.scheduler.clients.connection_admission import Account, ConnectionAdmission, RefusedError
from nvshare.scheduler.clients.identity import IdentityError, Peer, is_ending, peer_of, registrant_of
from nvshare.scheduler.clients.leaving import do_all
from nvshare.scheduler.clients.peer_timeout import PeerTimeout
from nvshare.scheduler.clients.reading import Reading
from nvshare.scheduler.clients.sending import Sending
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, WireError, encode

MAX_READ = 512
"""Bytes of one peer that are handled before other connections are served."""
MAX_WORK_NS = 1_000_000
"""Time spent on one peer's messages before other connections are served."""
ENDING_S = 30.0
"""How long the client of a process that ends stays at most."""
STILL_ENDING_S = 0.1
"""Processes usually end faster than this; after it the client gets no lock, and loses one that others wait for."""
_PONG = encode(wire.Pong(0))
_read_buffer = memoryview(bytearray(MAX_READ))  # Shared: it is emptied before the next connection is served.


class ClientConnection(asyncio.BufferedProtocol):
    """A connection on the clients' socket."""

    def __init__(self, engine: Engine, admission: ConnectionAdmission, *, grace_ms: int, timeout_s: float) -> None:
        self._engine = engine
        self._admission = admission
        self.grace_ms = grace_ms
        self.index_of: dict[str, int] = {}
        self._timeout = PeerTimeout(timeout_s, lambda why: self._guard(self._close, "silent", why))
        self._decoder = Decoder(wire.FROM_CLIENT)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._peer: Peer | None = None
        self._client = self.unheard_sweeps = self.untold_sweeps = 0
        self._gpus: tuple[str, ...] = ()
        self.out: list[bytes] = []
        self.sends_ping = False
        self._account: Account | None = None
        self._received = b""
        self._messages: deque[wire.Message] = deque()  # What was read and not handled yet.
        self._is_lost = self._was_pinged = self._has_ended = False
        self._reason = "closed"

    # From the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._reading = Reading(self._transport)
        why = "does not read what it is sent"
        self._sending = Sending(self._transport, lambda: self._guard(self._close, "unread", why))
        began = time.monotonic_ns()
        try:
            self._admission.admit()
            self._peer = peer_of(cast("socket.socket", transport.get_extra_info("socket")))
            account = self._admission.account_of(self._peer)
            self._admission.charge(account, began)
            self._admission.admit_to(account)
            self._loop.add_reader(self._peer.pidfd, self._note_process_end, self._peer.pidfd)
            self._timeout.start("never registered")
            self._account = account
        except Exception as error:
            self.fail(error)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._account is None:
            return  # It was refused and is being closed.
        self.unheard_sweeps = 0
        self._received = bytes(_read_buffer[:nbytes])
        if self._admission.has_several_accounts and self._account.delay_ns(now := time.monotonic_ns()) > 0:
            self._handle_later()  # The account owes time to others.
            self._admission.charge(self._account, now)
        else:
            self._handle_received()
            if nbytes == MAX_READ and self._reading.is_on:
                self._reading.pause()
                self._loop.call_soon(self._guard, self._reading.resume)

    def _handle_later(self) -> None:
        """Handle what was read when the account's debt is paid, after its other connections that wait."""
        assert self._account is not None
        self._reading.pause()
        self._timeout.stop()  # the peer may have sent the rest long ago
        self._account.wait(self, lambda: self._guard(self._handle_received))

    def _handle_received(self) -> None:
        """Handle what was read, at the expense of the account, for MAX_WORK_NS at most."""
        assert self._transport is not None
        assert self._account is not None
        if self._transport.is_closing():
            return
        began = time.monotonic_ns()
        is_done = self._feed(began + MAX_WORK_NS)
        self._admission.charge(self._account, began)
        if not is_done:
            self._handle_later()
        elif not self._reading.is_on:
            self._reading.resume()

    def _feed(self, deadline_ns: int) -> bool:
        """Handles messages until none is left, or until the deadline. Returns whether none is left."""
        try:
            messages, received, self._received = self._messages, self._received, b""
            messages.extend(self._decoder.feed(received))
            has_heard = bool(messages)
            while messages:
                self._handle(messages.popleft())
                if messages and time.monotonic_ns() > deadline_ns:
                    return False
            if self._was_pinged:
                self._answer_pings()
        except Exception as error:
            self._messages.clear()
            self.fail(error)
            return True
        if self._timeout.timer is not None or self._decoder.rest or not self._client:
            self._timeout.update(bool(self._client), is_mid_frame=bool(self._decoder.rest), has_heard=has_heard)
        return True

    def pause_writing(self) -> None:
        self._sending.pause()

    def resume_writing(self) -> None:
        self._sending.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._admission.end(self._account, lambda: self._guard(self._lost))

    def _lost(self) -> None:
        self._timeout.stop()
        if self._client and self._peer is not None and is_ending(self._peer):
            self._admission.note_ending(self._peer.pid, self._end)
            self._timeout.call_after(STILL_ENDING_S, self._guard, self._still_ends, self._peer.pid)
        else:
            self._end()

    def _still_ends(self, pid: int) -> None:
        self._engine.post(translation.silence(self._client))
        self._timeout.call_after(ENDING_S, self._guard, self._admission.end_earlier, pid)

    def _end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            do_all(self._engine, (self._admission.release, self, self._peer), (self._stop_watching,), (self._leave,))

    def _stop_watching(self) -> None:
        self._timeout.stop()
        if self._peer is not None:
            self._loop.remove_reader(self._peer.pidfd)
            os.close(self._peer.pidfd)

    # From the engine.

    def flush(self) -> None:
        self.untold_sweeps = 0
        if self._transport is not None and not self._is_lost:
            self._sending.send(b"".join(self.out))
        self.out.clear()

    def name_of(self, client: int) -> str:
        """For people: its name, its pid, and its pod or run."""
        found = self._engine.node.clients.get(client)
        return f"{found.name} (pid {found.pid}, {found.group.label})" if found else ""

    # Messages.

    def _handle(self, message: wire.Message) -> None:
        event_of = translation.EVENTS.get(type(message))
        if event_of is None:
            if isinstance(message, wire.Ping) and self._client:
                self._was_pinged = True
            else:
                self._handle_unmapped(message)
            return
        if not self._client:
            raise WireError(f"{type(message).__name__} before Register")
        index = message.gpu  # type: ignore[attr-defined]
        if index >= len(self._gpus):
            raise WireError(f"{type(message).__name__} for GPU {index}, but {len(self._gpus)} were registered")
        self._engine.post(event_of(self._client, self._gpus[index], message))

    def _answer_pings(self) -> None:
        """One answer for all that were read together."""
        self._was_pinged = False
        self.out.append(_PONG)
        self.flush()
        if self._client in self._engine.node.unheard:
            self._engine.post(translation.sign_of_life(self._client))

    def _handle_unmapped(self, message: wire.Message) -> None:
        if not isinstance(message, wire.Register):
            why = "before Register" if isinstance(message, wire.Ping) else "is the operator's: use nvsharectl"
            raise WireError(f"{type(message).__name__} {why}")
        if self._client:
            raise WireError("second Register")
        assert self._peer is not None
        self._gpus = translation.gpus_of(message)
        self.index_of = {gpu: index for index, gpu in enumerate(self._gpus)}
        assert self._account is not None
        self._admission.end_earlier(self._peer.pid)
        self._admission.admit_gpus(self._account, self._gpus, len(self._engine.node.gpus))
        client = self._client = self._admission.new_client_id(self._account)
        self.sends_ping = message.version >= wire.PING_SINCE
        self._engine.connections[client] = self
        registrant = registrant_of(client, self._peer, message.run, self._account.name)
        self._engine.post(translation.registration(registrant, message))

    # The end of the connection.

    def _note_process_end(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        self._admission.end(self._account, lambda: self._guard(self._process_ended))

    def _process_ended(self) -> None:
        self._reason = "process ended"
        if self._is_lost and self._peer is not None:
            self._admission.end_earlier(self._peer.pid)
        else:
            self._abort()

    def _close(self, kind: str, reason: str) -> None:
        """Close this connection because of what its peer did."""
        if self._transport is None or self._transport.is_closing():
            return
        self._admission.rejected[kind] += 1
        self._reason = reason
        who = f"client {client_name(self._client)}" if self._client else "a connection"
        pid = f" of pid {self._peer.pid} ({self._peer.command})" if self._peer else ""
        log.complain(f"Closing {who}{pid}: {reason}")
        self._abort()

    def fail(self, error: Exception) -> None:
        """Close because of the peer, or because of a defect of ours in serving it: its client can register again."""
        if error is self._engine.failure:
            raise error
        if isinstance(error, WireError):
            self._close("protocol", str(error))
        elif isinstance(error, (RefusedError, IdentityError)):
            self._close("refused", str(error))
        else:
            log.bug("client", "closed one client's connection", error)
            self._reason = "internal error"
            self._abort()
            if self._is_lost:
                self._end()

    def _guard(self, call: Callable[..., None], *words: object) -> None:
        """For the event loop: if the call fails, this connection ends, and nothing else."""
        try:
            call(*words)
        except Exception as error:
            self.fail(error)

    def _abort(self) -> None:
        self._leave()
        if self._transport is not None:
            self._transport.abort()

    def _leave(self) -> None:
        if self._client:
            assert self._account is not None
            client, self._client = self._client, 0
            self.out.clear()
            forget = (self._admission.forget_gpus, self._account, self._gpus), (self._admission.free_client_id, client)
            do_all(self._engine, *forget, (self._engine.connections.pop, client), (self._tell_core, client))

    def _tell_core(self, client: int) -> None:
        if client in self._engine.node.clients:
            self._engine.post(translation.departure(client, self._reason))
