"""A connection that is closed for a newer one leaves the queue for pieces at once, however many come."""

import asyncio
import contextlib
from collections.abc import Iterator

from nvshare.scheduler.http.server import MAX_RESERVED, HttpServer
from nvshare.scheduler.pieces import Owner, Pieces

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
MORE = 50


def test_scrapes_that_are_closed_for_newer_ones_take_no_turns() -> None:
    made = 0

    def body() -> Iterator[bytes]:
        nonlocal made
        made += 1
        yield b"x"

    async def scrape(port: int, stack: contextlib.ExitStack) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        stack.callback(writer.close)
        writer.write(REQUEST)
        await reader.readuntil(b"\r\n\r\n")  # The head of the answer: this scrape waits for a turn.
        return reader

    unhandled: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(str(context)))
        shared = Pieces()
        http = HttpServer({"/metrics": lambda: ("text/plain", body())}, reserved=frozenset({"/metrics"}), pieces=shared)
        server = await http.listen("127.0.0.1:0")
        with contextlib.ExitStack() as stack:
            async with shared.turn(Owner("slow")):  # Meanwhile nobody gets a turn.
                readers = [await scrape(server.sockets[0].getsockname()[1], stack) for _ in range(MAX_RESERVED + MORE)]
                assert sum(map(len, shared._waiting.values())) == MAX_RESERVED
            answers = await asyncio.gather(*(reader.read() for reader in readers), return_exceptions=True)
        assert [answer for answer in answers if answer and not isinstance(answer, OSError)] == (
            [b"1\r\nx\r\n0\r\n\r\n"] * MAX_RESERVED
        )
        server.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert (made, unhandled) == (MAX_RESERVED, [])
