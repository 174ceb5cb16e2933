"""A scheduler's core inside a cluster: pods from a fake API server, claims from a directory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from kube.fake_apiserver import FakeApiServer
from nvshare.core.model import Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.metrics import Metrics
from nvshare.scheduler.sources.claims import Claims
from nvshare.scheduler.sources.kubernetes import Kubernetes


@contextlib.asynccontextmanager
async def cluster(
    server: FakeApiServer, folder: Path, settings: Settings | None = None
) -> AsyncIterator[tuple[Engine, Kubernetes]]:
    """A scheduler's core with the node's claims and pods."""
    node = Node(settings or Settings(), epoch=1, expects_pods=True, is_paranoid=True)
    engine = Engine(node, asyncio.get_running_loop())
    claims = Claims(engine, folder)
    claims.start()
    admission = ConnectionAdmission(max_connections=10, max_per_account=10)
    kubernetes = Kubernetes(engine, Metrics(admission), claims, server.address, "node-1")
    engine.observers.append(kubernetes.observe)
    tasks = [asyncio.create_task(run()) for run in kubernetes.runs]
    try:
        yield engine, kubernetes
    finally:
        claims.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
