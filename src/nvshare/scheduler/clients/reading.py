"""Whether the event loop reads a client's connection. It does not while the client has to wait for its turn to be
served."""

import asyncio


class Reading:
    """Pauses and resumes a transport; does nothing when it closes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_on = True

    def pause(self) -> None:
        if self.is_on and not self._transport.is_closing():
            self.is_on = False
            self._transport.pause_reading()

    def resume(self) -> None:
        if not self.is_on and not self._transport.is_closing():
            self.is_on = True
            self._transport.resume_reading()
