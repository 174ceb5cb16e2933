"""The end of a client and of its connection: each part is done, even if another part fails. A client that stayed in the
core would keep its lock without end."""

from typing import Any

from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log


def do_all(engine: Engine, *parts: tuple[Any, ...]) -> None:
    """Call all of them, each a function and its arguments. Raises only what the core has raised."""
    for call, *words in parts:
        try:
            call(*words)
        except Exception as error:
            if error is engine.failure:
                raise
            log.bug("client", "kept a part of a connection's end from being done", error)
