"""What is served over HTTP: the live page and what it reads, metrics, health."""

import asyncio

from nvshare.scheduler.engine import Engine
from nvshare.scheduler.journal import Journal
from nvshare.scheduler.live import Feed
from nvshare.scheduler.log import log
from nvshare.scheduler.metrics import Metrics
from nvshare.scheduler.page import assets
from nvshare.scheduler.web import Page, Web


async def serve_pages(address: str, engine: Engine, journal: Journal, metrics: Metrics) -> asyncio.Server:
    """Listen at ADDRESS:PORT."""
    feed = Feed(engine, journal)
    table: dict[str, Page] = {
        "/metrics": lambda: (
            "text/plain; version=0.0.4; charset=utf-8",
            metrics.render(engine.outline(), engine.clients()),
        ),
        "/healthz": lambda: ("text/plain", [b"ok\n"]),
        "/api/v1/status": lambda: ("application/json", feed.status_pieces()),
    }
    server = await Web(table | assets(), {"/api/v1/events": feed.stream}).listen(address)
    host, port = server.sockets[0].getsockname()[:2]
    log.info(f"http at {f'[{host}]' if ':' in host else host}:{port}")
    return server
