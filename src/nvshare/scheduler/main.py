"""nvshare-scheduler: puts the parts together, runs until told to end."""

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from nvshare import admin
from nvshare.config import Config, ConfigError, load
from nvshare.core.events import ClientLeft, ClientRegistered
from nvshare.core.model import SECOND, Mode, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.inotify import Inotify
from nvshare.scheduler.clients import Clients
from nvshare.scheduler.connection import ClientConnection
from nvshare.scheduler.control import Control
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.identity import printable
from nvshare.scheduler.journal import Beginning, Journal, JournalFile
from nvshare.scheduler.listener import BACKLOG, Lease, Listener
from nvshare.scheduler.log import log
from nvshare.scheduler.metrics import Metrics
from nvshare.scheduler.remembered import RememberedLimits
from nvshare.scheduler.step import Step

if TYPE_CHECKING:
    from nvshare.kube.client import Server
    from nvshare.scheduler.kubernetes import Kubernetes

EXIT_CONFIG = 2
EXIT_BUG = 70


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
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._failed = False
        self._loop = asyncio.get_running_loop()
        self._cluster = self._find_cluster()
        self._lease = Lease(Path(config.operator_socket))
        self._listener = Listener(Path(config.socket), mode=0o666)
        self._operator = Listener(Path(config.operator_socket), mode=0o600)
        self._clients = Clients(most=config.max_clients, most_per_group=config.max_clients_per_group)
        self._engine = Engine(self._node(), self._loop)
        self._journal = Journal(config.journal_steps)
        self._metrics = Metrics(self._clients)
        self._file: JournalFile | None = None
        self._unused: asyncio.TimerHandle | None = None
        self._kubernetes: Kubernetes | None = None
        self._servers: list[asyncio.AbstractServer] = []
        self._is_listening_again = False
        self._inotify: Inotify | None = None

    async def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        try:
            self._servers = await self._start()
        except ConfigError:
            await self._close()
            raise
        log.info(f"nvshare-scheduler listens at {self._config.socket}")
        gc.collect()
        gc.freeze()
        notify("READY=1")
        await self._stopping.wait()
        notify("STOPPING=1")
        for server in self._servers:
            server.close()
        await self._close()
        log.flush_summary()
        log.info("nvshare-scheduler ends; running programs go on")
        return EXIT_BUG if self._failed else 0

    async def _start(self) -> list[asyncio.AbstractServer]:
        self._watch()
        self._remember_limits()
        clients = await self._loop.create_unix_server(self._connection, sock=self._listener.socket, backlog=BACKLOG)
        control = Control(self._engine, self._journal)
        operators = await asyncio.start_unix_server(control.serve, sock=self._operator.socket, limit=admin.MAX_LINE)
        web = await self._serve_http()
        self._follow_pods()
        self._start_measuring()
        self._watch_use()
        self._watch_socket()
        return [clients, operators, *web]

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

    def _watch(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stop)
        self._loop.set_exception_handler(self._bug)
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

    async def _serve_http(self) -> list[asyncio.Server]:
        if not self._config.http:
            return []
        from nvshare.scheduler.live import Feed  # only who asked for it pays for it
        from nvshare.scheduler.page import assets
        from nvshare.scheduler.web import Page, Web

        feed = Feed(self._engine, self._journal)
        table: dict[str, Page] = {
            "/metrics": lambda: (
                "text/plain; version=0.0.4; charset=utf-8",
                self._metrics.render(self._engine.outline(), self._engine.clients()),
            ),
            "/healthz": lambda: ("text/plain", [b"ok\n"]),
            "/api/v1/status": lambda: ("application/json", feed.status_pieces()),
        }
        pages = Web(table | assets(), {"/api/v1/events": feed.stream})
        server = await pages.listen(self._config.http)
        host, port = server.sockets[0].getsockname()[:2]
        log.info(f"http at {f'[{host}]' if ':' in host else host}:{port}")
        return [server]

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
                self._look_after(task)

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
        self._look_after(self._loop.create_task(measurements.run()))

    def _look_after(self, task: asyncio.Task[None]) -> None:
        """A task that should never end and does is a mistake of ours, not something to go on without."""
        self._tasks.append(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not self._stopping.is_set():
            error = task.exception()
            log.error(f"internal error, ending: {task.get_name()} ended with {error!r}; please report it")
            if error is not None:
                self._loop.default_exception_handler({"message": "a task has ended", "exception": error})
            self._failed = True
            self._stop()

    # A directory that somebody clears, as a careless hand does: a scheduler that nobody finds is of no use.

    def _watch_socket(self) -> None:
        directory = Path(self._config.socket).parent
        try:
            self._inotify = self._inotify or Inotify(self._look_for_socket)
            self._inotify.watch(directory)
        except OSError as error:
            log.warning(f"{directory} cannot be watched ({error.strerror}); if it is cleared, restart the scheduler")

    def _look_for_socket(self) -> None:
        if self._listener.is_ours() or self._stopping.is_set() or self._is_listening_again:
            return
        if self._listener.is_nowhere():
            log.error(f"The directory of {self._config.socket} was removed: ending, so that a successor makes it anew")
            self._failed = True
            self._stop()
            return
        self._is_listening_again = True
        self._tasks.append(self._loop.create_task(self._listen_again()))

    async def _listen_again(self) -> None:
        """Programs that are connected stay so; newcomers find a new socket."""
        while not self._listener.is_ours():
            try:
                self._listener = Listener(Path(self._config.socket), mode=0o666)
                server = await self._loop.create_unix_server(
                    self._connection, sock=self._listener.socket, backlog=BACKLOG
                )
            except (ConfigError, OSError):
                await asyncio.sleep(0.05)  # it is being cleared right now
                continue
            self._servers.append(server)
            self._watch_socket()  # the directory may be another
            log.warning(f"{self._config.socket} was removed, and made anew")
        self._is_listening_again = False

    # A scheduler that somebody started for a few programs ends with them.

    def _watch_use(self) -> None:
        if self._config.exit_when_unused:
            self._engine.observers.append(self._note_use)
            self._note_use(None)

    def _note_use(self, step: Step | None) -> None:
        if step is not None and not isinstance(step.event, (ClientRegistered, ClientLeft)):
            return
        if self._unused is not None:
            self._unused.cancel()
            self._unused = None
        if not self._clients.registered:
            self._unused = self._loop.call_later(self._config.exit_when_unused, self._stop_unless_wanted)

    def _stop_unless_wanted(self) -> None:
        if self._lease.is_wanted():
            self._unused = self._loop.call_later(self._config.exit_when_unused, self._stop_unless_wanted)
        else:
            self._stop()

    # Ends.

    def _stop(self) -> None:
        self._stopping.set()

    def _bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A mistake of ours: say so and end. Programs go on without us and join our successor, whose state is sound."""
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return  # An operator who was connected when we were told to end.
        if isinstance(error, OSError):
            log.warning(f"{context.get('message')}: {error}")
            return
        loop.default_exception_handler(context)
        log.error(f"internal error, ending: {error!r}; please report it with the lines above")
        self._failed = True
        self._stop()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener.close()
        self._operator.close()
        if self._file is not None:
            self._file.close()
        self._lease.close()


def notify(state: str) -> None:
    """Tell systemd, if it started us."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
            except OSError as error:
                log.warning(f"systemd cannot be told {state}: {error.strerror}")


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
