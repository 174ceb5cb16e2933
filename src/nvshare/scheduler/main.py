"""nvshare-scheduler: puts the parts together, runs until told to end."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nvshare import admin
from nvshare.config import Config, ConfigError, load
from nvshare.core.model import SECOND, Mode, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients import Clients
from nvshare.scheduler.connection import ClientConnection
from nvshare.scheduler.control import Control
from nvshare.scheduler.door import Door
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.identity import printable
from nvshare.scheduler.journal import Beginning, Journal, JournalFile
from nvshare.scheduler.life import Life, Unused, notify
from nvshare.scheduler.listener import Lease, Listener
from nvshare.scheduler.log import log
from nvshare.scheduler.metrics import Metrics
from nvshare.scheduler.remembered import RememberedLimits

if TYPE_CHECKING:
    from nvshare.kube.client import Server
    from nvshare.scheduler.kubernetes import Kubernetes

EXIT_CONFIG = 2


def mode_of(name: str) -> Mode:
    """The name is one of config's choices."""
    return "fixed" if name == "fixed" else "adaptive" if name == "adaptive" else "auto"


def settings_of(config: Config) -> Settings:
    """What the core needs of the configuration."""
    return Settings(
        quantum=QuantumRule(
            mode=mode_of(config.switch_time_mode),
            fixed_ns=config.switch_time_fixed * SECOND,
            multiplier=config.switch_time_multiplier,
        ),
        policy=config.policy,
        reserve_percent=config.memory_reserve_percent,
        grace_ns=int(config.grace_seconds * SECOND),
        settle_ns=int(config.settle_seconds * SECOND),
        long_wait_ns=int(config.long_wait_seconds * SECOND),
        move_ns_per_gib=int(config.move_seconds_per_gib * SECOND),
    )


class Daemon:
    """One scheduler: built, run, closed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = settings_of(config)
        self._loop = asyncio.get_running_loop()
        self._cluster = self._find_cluster()
        self._lease = Lease(Path(config.operator_socket))
        self._life = Life(self._loop)
        self._door = Door(Path(config.socket), self._connection, self._life)
        self._operator = Listener(Path(config.operator_socket), mode=0o600)
        self._clients = Clients(most=config.max_clients, most_per_group=config.max_clients_per_group)
        self._engine = Engine(self._node(), self._loop)
        self._journal = Journal(config.journal_steps)
        self._metrics = Metrics(self._clients)
        self._file: JournalFile | None = None
        self._kubernetes: Kubernetes | None = None
        self._servers: list[asyncio.AbstractServer] = []

    async def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        try:
            await self._start()
        except ConfigError:
            await self._close()
            raise
        log.info(f"nvshare-scheduler listens at {self._config.socket}")
        gc.collect()
        gc.freeze()
        notify("READY=1")
        code = await self._life.wait()
        notify("STOPPING=1")
        await self._close()
        log.flush_summary()
        log.info("nvshare-scheduler ends; running programs go on")
        return code

    async def _start(self) -> None:
        self._observe()
        self._remember_limits()
        await self._door.open()
        control = Control(self._engine, self._journal)
        operator = self._operator.socket
        self._servers.append(await asyncio.start_unix_server(control.serve, sock=operator, limit=admin.MAX_LINE))
        if self._config.http:
            from nvshare.scheduler.pages import serve_pages  # only who asked for it pays for it

            address = self._config.http
            self._servers.append(await serve_pages(address, self._engine, self._journal, self._metrics))
        self._follow_pods()
        self._start_measuring()
        if self._config.exit_when_unused:
            unused = Unused(self._life, self._clients, self._lease, self._config.exit_when_unused)
            self._engine.observers.append(unused.observe)

    def _node(self) -> Node:
        settles_at = None
        if self._lease.had_predecessor and self._settings.settle_ns:
            settles_at = time.monotonic_ns() + self._settings.settle_ns
        began = self._began = Beginning(
            now=time.monotonic_ns(),
            settings=self._settings,
            epoch=self._lease.epoch,
            settles_at=settles_at,
            expects_pods=self._cluster is not None,
        )
        return Node(began.settings, epoch=began.epoch, settles_at=settles_at, expects_pods=began.expects_pods)

    def _observe(self) -> None:
        log.call_later = self._loop.call_later
        self._engine.observers.extend((self._journal.observe, self._metrics.observe, log.observe))
        if self._config.journal_file:
            self._file = JournalFile(Path(self._config.journal_file), self._config.journal_file_bytes)
            self._file.observe(self._began)
            self._engine.observers.append(self._file.observe)
            self._metrics.journal_lost = lambda: self._file.lost if self._file else 0

    def _remember_limits(self) -> None:
        remembered = RememberedLimits(self._engine, Path(self._config.operator_socket).with_name("limits.json"))
        remembered.restore()
        self._engine.observers.append(remembered.observe)

    def _connection(self) -> ClientConnection:
        grace_ms = self._settings.grace_ns // 1_000_000
        patience_s = self._config.patience_seconds
        return ClientConnection(self._engine, self._clients, grace_ms=grace_ms, patience_s=patience_s)

    def _find_cluster(self) -> "Server | None":
        """The API server whose pods to follow. Known from the start: until they are listed, limits that clients were
        told of by an earlier scheduler stay in force."""
        if self._config.kubernetes == "off":
            return None
        from nvshare.scheduler.kubernetes import find_cluster

        try:
            server = find_cluster(self._config.kubernetes)
        except ValueError:
            raise ConfigError("KUBERNETES_SERVICE_PORT is not a number; unset it, or --kubernetes off") from None
        if server is None and self._config.kubernetes == "on":
            raise ConfigError("--kubernetes on, but this is no pod with a service account")
        if server is not None and not self._config.node_name:
            raise ConfigError("--node-name is missing: set NVSHARE_NODE_NAME from spec.nodeName, or --kubernetes off")
        return server

    def _follow_pods(self) -> None:
        if self._cluster is not None:
            from nvshare.scheduler.kubernetes import Kubernetes

            self._kubernetes = Kubernetes(self._engine, self._metrics, self._cluster, self._config.node_name)
            self._engine.observers.append(self._kubernetes.observe)
            for task in self._kubernetes.start():
                self._life.look_after(task)

    def _start_measuring(self) -> None:
        if self._config.nvml == "off":
            return
        from nvshare.inventory.nvml import Nvml, NvmlUnavailableError
        from nvshare.scheduler.measure import Measurements

        try:
            strangers = self._kubernetes.see_strangers if self._kubernetes else None
            measurements = Measurements(self._engine, Nvml(), see_strangers=strangers)
            found = measurements.discover()
        except NvmlUnavailableError as error:
            if self._config.nvml == "on":
                raise ConfigError(f"{error}; or start with --nvml off") from None
            log.info(f"{error}; GPUs are learnt from the programs that use them")
            return
        log.info(f"NVML knows {found} GPU(s)")
        self._engine.observers.append(measurements.observe)
        self._life.look_after(self._loop.create_task(measurements.run()))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._door.close()
        await self._life.end_tasks()
        self._operator.close()
        if self._file is not None:
            self._file.close()
        self._lease.close()


async def _run(config: Config) -> int:
    return await Daemon(config).run()


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    try:
        config = load(sys.argv[1:] if argv is None else argv, os.environ)
        log.level = "debug" if config.debug else config.log_level
        log.is_json = config.log_format == "json"
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config))
    except ConfigError as error:
        sys.stderr.write(f"nvshare-scheduler: {printable(str(error), 1000)}\n")
        return EXIT_CONFIG


if __name__ == "__main__":
    sys.exit(main())
