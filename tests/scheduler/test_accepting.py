"""How the event loop accepts connections."""

import asyncio
import socket
from collections import Counter
from pathlib import Path

import uvloop

WAITING = 50


def test_a_backlog_of_connections_is_accepted_one_in_each_iteration_of_the_loop(tmp_path: Path) -> None:
    """So a flood delays a message of another client by one connection, not by the whole backlog."""
    path = str(tmp_path / "s.sock")
    accepted: Counter[int] = Counter()
    iterations = 0

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted[iterations] += 1
            if accepted.total() == WAITING:
                done.set()

    def iterate() -> None:
        nonlocal iterations
        iterations += 1
        asyncio.get_running_loop().call_soon(iterate)

    async def serve() -> None:
        iterate()
        server = await asyncio.get_running_loop().create_unix_server(Accepted, sock=listening)
        await done.wait()
        server.close()

    done = asyncio.Event()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(WAITING)
        peers = [socket.socket(socket.AF_UNIX) for _ in range(WAITING)]
        for peer in peers:
            peer.connect(path)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
        for peer in peers:
            peer.close()
    assert set(accepted.values()) == {1}
