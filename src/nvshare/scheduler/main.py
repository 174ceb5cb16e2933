"""nvshare-scheduler: builds the daemon and runs it until a shutdown is requested."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import uvloop

from nvshare import admin
from nvshare.config import Config, ConfigError, load
from nvshare.core.events import ClientLeft, ClientRegistered, MemoryMoved, ServingBegan
from nvshare.core.model import SECOND, ModeName, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.journal import DaemonStart
from nvshare.printable import printable
from nvshare.scheduler.clients.client_socket import ClientSocket
from nvshare.scheduler.clients.connection import ClientConnection
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.clients.silence import SilenceWatch
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.instance_lock import InstanceLock
from nvshare.scheduler.listening_socket import ListeningSocket
from nvshare.scheduler.observe.journal import Journal, JournalFile
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.metrics import Metrics
from nvshare.scheduler.observe.usage_file import UsageFile
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.operator.ended_processes import EndedProcesses
from nvshare.scheduler.operator.remembered_limits import STATE_FILES, RememberedLimits
from nvshare.scheduler.reload import Reload, set_log, show_steps
from nvshare.scheduler.shutdown import ExitWhenUnused, Shutdown, notify_systemd
from nvshare.scheduler.viewer_connection import guarded

if TYPE_CHECKING:
    from nvshare.kube.client import Server
    from nvshare.scheduler.sources.claims import Claims
    from nvshare.scheduler.sources.kubernetes import Kubernetes

EXIT_CONFIG = 2
_LONGEST_LIST_S = 2.0
MAX_START_NS = 60_000_000_000
"""The settling time begins when clients are served; at the latest this long after the start."""
NVIDIA_DRIVER = "/proc/driver/nvidia"
"""There while the kernel module is loaded. Simulated GPUs have no memory on the host."""


def mode_of(name: str) -> ModeName:
    """The name is one of config's choices."""
    return next(mode for mode in get_args(ModeName) if mode == name)


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
        card_reserve=config.card_reserve,
        grace_ns=int(config.grace_seconds * SECOND),
        settle_ns=int(config.settle_seconds * SECOND),
        long_wait_ns=int(config.long_wait_seconds * SECOND),
        live_shrink=config.live_shrink == "on",
        move_ns_per_gib=int(config.move_seconds_per_gib * SECOND),
        is_claim_binding=config.annotation_above_claim == "refuse",
    )


class Daemon:
    """One scheduler: built, run, closed."""

    def __init__(self, config: Config, read: Callable[[], Config]) -> None:
        """`read` reads the settings again, after SIGHUP."""
        self._config = config
        self._host = printable(config.node_name or socket.gethostname())
        self._settings = settings_of(config)
        self._loop = asyncio.get_running_loop()
        self._cluster = self._find_cluster()
        self._instance_lock = InstanceLock(Path(config.operator_socket), state_files=STATE_FILES)
        self._shutdown = Shutdown(self._loop)
        self._client_socket = ClientSocket(Path(config.socket), self._connection, self._shutdown)
        self._operator_socket = ListeningSocket(Path(config.operator_socket), mode=0o600)
        self._admission = ConnectionAdmission(
            max_connections=config.max_clients, max_per_account=config.max_clients_per_group
        )
        self._engine = Engine(self._node(), self._loop)
        self._engine.on_failure = self._shutdown.step_failed
        self._loop.add_signal_handler(signal.SIGHUP, Reload(self._engine, config, read).reload)
        self._journal = Journal(config.journal_steps)
        self._metrics = Metrics(self._admission)
        self._reader_socket: ListeningSocket | None = None
        self._file: JournalFile | None = None
        self._usage = UsageFile(self._engine, config)
        self._kubernetes: Kubernetes | None = None
        self._claims: Claims | None = None
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
        if self._engine.node.is_settling:
            self._engine.post(ServingBegan())
        notify_systemd("READY=1")
        code = await self._shutdown.wait()
        notify_systemd("STOPPING=1")
        await self._close()
        log.flush_summary()
        log.info("nvshare-scheduler stops; running programs continue")
        return code

    async def _start(self) -> None:
        self._observe()
        self._usage.start()
        self._shutdown.keep_running(self._usage.run)
        RememberedLimits(self._engine, Path(self._config.operator_socket).parent).restore()
        await self._watch_cluster()
        await self._client_socket.open()
        control = Control(self._engine, self._journal, self._host, self._usage.usage)
        serve = guarded(control.serve, "operator's")
        server = await asyncio.start_unix_server(serve, sock=self._operator_socket.socket, limit=admin.MAX_LINE)
        self._servers.append(server)
        await self._serve_readers(control)
        if self._config.http:
            from nvshare.scheduler.http.routes import serve_routes  # not loaded unless it is used

            parts = self._config.http, self._engine, self._journal, self._metrics, control.pieces
            hosts = self._config.http_hosts
            self._servers.append(await serve_routes(*parts, machine=self._host, hosts=hosts))
        for run in (SilenceWatch(self._engine).run, EndedProcesses(self._engine).run):
            self._shutdown.keep_running(run)
        self._start_nvml_poll()
        self._watch_host_memory()
        if self._config.exit_when_unused:
            unused = ExitWhenUnused(self._shutdown, self._admission, self._instance_lock, self._config.exit_when_unused)
            for event in (ClientRegistered, ClientLeft):
                self._engine.observers_of[event].append(unused.observe)

    async def _serve_readers(self, control: Control) -> None:
        if self._config.reader_socket:
            from nvshare.scheduler.operator.readers import listen

            self._reader_socket, server = await listen(Path(self._config.reader_socket), control)
            self._servers += [server] if server is not None else []

    def _node(self) -> Node:
        settles_at = None
        if self._instance_lock.had_predecessor and self._settings.settle_ns:
            settles_at = time.monotonic_ns() + MAX_START_NS + self._settings.settle_ns
        self._daemon_start = DaemonStart(
            now=time.monotonic_ns(),
            settings=self._settings,
            epoch=self._instance_lock.epoch,
            settles_at=settles_at,
            expects_pods=self._cluster is not None,
        )
        return self._daemon_start.node()

    def _observe(self) -> None:
        log.call_later = self._loop.call_later
        self._engine.observers.extend((self._journal.observe, self._metrics.observe))
        self._engine.observers_of[MemoryMoved].append(self._metrics.memory_moved)
        show_steps(self._engine)
        if self._config.journal_file:
            self._file = JournalFile(Path(self._config.journal_file), self._config.journal_file_bytes)
            self._file.observe(self._daemon_start)
            for observers in (self._engine.observers, self._engine.observers_of_figures):
                observers.append(self._file.observe)
            self._metrics.journal_lost = lambda: self._file.lost if self._file else 0

    def _connection(self) -> ClientConnection:
        grace_ms = self._settings.grace_ns // 1_000_000
        timeout_s = self._config.patience_seconds
        return ClientConnection(self._engine, self._admission, grace_ms=grace_ms, timeout_s=timeout_s)

    def _find_cluster(self) -> "Server | None":
        """The API server whose pods are watched. It is known before the core is made: until the pods are listed, limits
        that an earlier scheduler gave to clients stay in force."""
        if self._config.kubernetes == "off":
            return None
        from nvshare.scheduler.sources.kubernetes import find_cluster

        try:
            server = find_cluster(self._config.kubernetes)
        except ValueError:
            raise ConfigError("KUBERNETES_SERVICE_PORT is not a number; unset it, or --kubernetes off") from None
        if server is None and self._config.kubernetes == "on":
            raise ConfigError(
                "--kubernetes on, but this is not a pod with a service account; use --kubernetes auto or off"
            )
        if server is not None and not self._config.node_name:
            raise ConfigError("--node-name is missing: set NVSHARE_NODE_NAME from spec.nodeName, or --kubernetes off")
        return server

    async def _watch_cluster(self) -> None:
        """Pods and their claims. If there are claims, clients wait until it is known which pods share one, but not for
        an API server that is away."""
        if self._cluster is None:
            return
        from nvshare.scheduler.sources.claims import Claims
        from nvshare.scheduler.sources.kubernetes import Kubernetes

        self._claims = Claims(self._engine, Path(self._config.operator_socket).parent, self._shutdown.retried)
        self._claims.start()
        names = self._config.node_name, self._config.resource_name
        self._kubernetes = Kubernetes(self._engine, self._metrics, self._claims, self._cluster, *names)
        self._engine.observers.append(self._kubernetes.observe)
        for run in self._kubernetes.runs:
            self._shutdown.keep_running(run)
        if self._claims.labels:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_LIST_S):
                    await self._kubernetes.pods_listed.wait()

    def _start_nvml_poll(self) -> None:
        if self._config.nvml == "off":
            return
        from nvshare.inventory.nvml import Nvml, NvmlUnavailableError
        from nvshare.scheduler.sources.nvml_poll import NvmlPoll

        try:
            strangers = self._kubernetes.see_strangers if self._kubernetes else None
            nvml_poll = NvmlPoll(self._engine, Nvml(), see_strangers=strangers)
            found = nvml_poll.discover()
        except NvmlUnavailableError as error:
            if self._config.nvml == "on":
                raise ConfigError(f"{error}; or start with --nvml off") from None
            log.info(f"{error}; GPUs become known when programs use them")
            return
        log.info(f"NVML reports {found} GPU(s)")
        self._engine.observers_of[ClientRegistered].append(nvml_poll.observe)
        self._shutdown.keep_running(nvml_poll.run)

    def _watch_host_memory(self) -> None:
        is_wanted = (
            Path(NVIDIA_DRIVER).exists() if self._config.host_memory == "auto" else self._config.host_memory == "on"
        )
        if not is_wanted:
            return
        from nvshare.scheduler.sources.host_memory import HostMemoryPoll

        report = self._kubernetes.report_host_memory if self._kubernetes else lambda client, text: None
        charge, cgroup_root = self._admission.charge_clients, Path(self._config.cgroup_root)
        poll = HostMemoryPoll(self._engine, report=report, charge=charge, cgroup_root=cgroup_root)
        self._engine.observers.append(poll.observe)
        self._engine.before = poll.before
        self._shutdown.keep_running(poll.run)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._client_socket.close()
        await self._shutdown.cancel_tasks()
        if self._claims is not None:
            self._claims.close()
        self._operator_socket.close()
        if self._reader_socket is not None:
            self._reader_socket.close()
        if self._file is not None:
            self._file.close()
        self._usage.close()
        self._instance_lock.release()


async def _run(config: Config, read: Callable[[], Config]) -> int:
    return await Daemon(config, read).run()


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    try:
        words = sys.argv[1:] if argv is None else argv
        config = load(words, os.environ)
        set_log(config)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(config, lambda: load(words, os.environ)))
    except ConfigError as error:
        sys.stderr.write(f"nvshare-scheduler: {printable(str(error), 1000)}\n")
        return EXIT_CONFIG


if __name__ == "__main__":
    sys.exit(main())
