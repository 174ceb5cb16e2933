"""A peer has a limited time for each frame, and not for all of them together."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nvshare.wire import messages as wire
from nvshare.wire.codec import encode
from scheduler.test_charged_time import serving
from support.client import entry, registration


def test_a_slow_peer_whose_frames_do_get_finished_is_not_closed(tmp_path: Path) -> None:
    """Its frames always overlap the end of a write, so it is never between two frames; but each has its own time."""
    question = encode(wire.BudgetAsk(0, 1, 0))
    limits: list[asyncio.TimerHandle] = []

    async def main(path: str) -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def later(delay: float, callback: Any, *words: Any) -> asyncio.TimerHandle:
            handle = call_later(delay, callback, *words)
            limits.extend([handle] if "half a frame, then silence" in words else [])
            return handle

        loop.call_later = later  # type: ignore[method-assign,assignment]
        async with serving(path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(encode(registration(entry())) + question[:5])
            for frames in range(1, 6):
                await until(lambda wanted=frames: len(limits) == wanted)  # type: ignore[misc]
                assert [limit.cancelled() for limit in limits] == [True] * (frames - 1) + [False]
                writer.write(question[5:] + question[:5])
            writer.write(question[5:])
            await until(limits[-1].cancelled)
            writer.close()
            del reader

    asyncio.run(main(str(tmp_path / "s")))


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not claim():
            await asyncio.sleep(0.001)
