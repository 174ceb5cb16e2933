"""nvshare-device-plugin: offers each GPU of this node to kubelet as several `nvshare.com/gpu`."""

import asyncio
import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nvshare import __version__
from nvshare.inotify import Inotify
from nvshare.inventory.gpus import Gpu, SelectionError, Xid, select
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.plugin.container import Injection, Options, Strategy
from nvshare.plugin.health import Health
from nvshare.plugin.install import HostDirGoneError, install
from nvshare.plugin.lifecycle import Lifecycle
from nvshare.plugin.service import DevicePlugin
from nvshare.plugin.slots import MOST_SLOTS, POLICIES, Offer, offers
from nvshare.record import Record

log = logging.getLogger("nvshare.plugin")

SOCKET = "nvshare.sock"
_XID_WAIT_MS = 1000


class Settings(Record, frozen=True):
    """Everything that can be set, by flag or environment."""

    gpus: str
    virtual_devices: int
    virtual_devices_per_gpu: str
    policy: str
    options: Options
    resource: str
    library: Path
    kubelet_dir: Path
    run_dir: Path
    ignored_xids: frozenset[int]
    probe_s: float


class Program:
    """The parts of the plugin, wired together."""

    def __init__(self, settings: Settings, nvml: Nvml, offered: tuple[Offer, ...]) -> None:
        self._settings = settings
        self._nvml = nvml
        self._gpus = tuple(offer.gpu.uuid for offer in offered)
        self._health = Health(self._gpus, ignored_xids=settings.ignored_xids)
        self._plugin = DevicePlugin(offered, POLICIES[settings.policy], settings.options, prepare=self._prepare)
        self._host_changed = asyncio.Event()
        self._stopping = threading.Event()
        self._xids: threading.Thread | None = None

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, or until the host's directory is gone."""
        loop = asyncio.get_running_loop()
        self._prepare()
        lifecycle = Lifecycle(
            self._plugin, directory=self._settings.kubelet_dir, socket=SOCKET, resource=self._settings.resource
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        self._listen_for_xids(loop)
        work = [lifecycle.run(), self._keep_installed(), self._probe_for_ever(), stop.wait()]
        tasks = [asyncio.ensure_future(job) for job in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._stopping.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._xids is not None:
                await asyncio.to_thread(self._xids.join)  # it is inside NVML, which must not be closed under it

    def _prepare(self) -> None:
        for path in install(self._settings.library, self._settings.run_dir):
            log.info("Installed %s", path)

    async def _keep_installed(self) -> None:
        """Put the library back when somebody clears the directory."""
        inotify = Inotify(self._host_changed.set)
        try:
            while True:
                self._prepare()
                with contextlib.suppress(FileNotFoundError):
                    inotify.watch(self._settings.run_dir)
                    inotify.watch(self._settings.run_dir / "lib")
                    self._prepare()  # what was cleared before it was watched
                    await self._host_changed.wait()
                self._host_changed.clear()
        finally:
            inotify.close()

    # Health.

    def _listen_for_xids(self, loop: asyncio.AbstractEventLoop) -> None:
        deaf = self._nvml.watch_xids(self._gpus)
        if deaf:
            log.warning("XID errors cannot be watched on %s; only a GPU that stops answering is seen", ", ".join(deaf))
        if len(deaf) < len(self._gpus):
            self._xids = threading.Thread(target=self._wait_for_xids, args=(loop,), name="xid", daemon=True)
            self._xids.start()

    def _wait_for_xids(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.is_set():
            try:
                xid = self._nvml.wait_xid(_XID_WAIT_MS)
            except GpuLostError as error:
                log.warning("%s", error)
                self._stopping.wait(_XID_WAIT_MS / 1000)  # NVML answers at once in this state; the probes go on
                continue
            if xid is not None:
                with contextlib.suppress(RuntimeError):  # the loop may close while we wait
                    asyncio.run_coroutine_threadsafe(self._take_xid(xid), loop)

    async def _take_xid(self, xid: Xid) -> None:
        log.warning("XID error %d on GPU %s", xid.code, xid.uuid or "(not said which)")
        if self._health.xid(xid.uuid, xid.code, time.monotonic()):
            await self._publish_health()

    async def _probe_for_ever(self) -> None:
        while True:
            changed = [await self._probe(uuid) for uuid in self._gpus]
            if any(changed):
                await self._publish_health()
            await asyncio.sleep(self._settings.probe_s)

    async def _probe(self, uuid: str) -> bool:
        answers, needs_recovery = True, None
        try:
            await asyncio.to_thread(self._nvml.sample, uuid)
            needs_recovery = await asyncio.to_thread(self._nvml.needs_recovery, uuid)
        except (GpuLostError, NvmlUnavailableError):
            answers = False
        return self._health.probed(uuid, time.monotonic(), answers=answers, needs_recovery=needs_recovery)

    async def _publish_health(self) -> None:
        unfit = self._health.unfit()
        for uuid in self._gpus:
            log.warning("GPU %s: %s", uuid, unfit.get(uuid, "fit"))
        await self._plugin.set_unfit(frozenset(unfit))


def offered_gpus(settings: Settings, found: tuple[Gpu, ...]) -> tuple[Offer, ...]:
    """What this node offers; raises SelectionError when the settings name what is not there."""
    if not found:
        raise SelectionError("there is no GPU on this node")
    chosen = offers(select(found, settings.gpus), settings.virtual_devices, settings.virtual_devices_per_gpu)
    if not any(offer.slots for offer in chosen):
        raise SelectionError("no GPU is left to offer by these settings")
    return chosen


def start(settings: Settings) -> None:
    """Run the plugin; a line and exit code 1 or 2 when it cannot."""
    try:
        with Nvml() as nvml:
            offered = offered_gpus(settings, nvml.discover())
            for offer in offered:
                log.info("GPU %d %s %s: %d slots", offer.gpu.index, offer.gpu.uuid, offer.gpu.name, offer.slots)
            asyncio.run(_run(settings, nvml, offered))
    except SelectionError as error:
        log.error("%s", error)
        sys.exit(2)
    except (NvmlUnavailableError, HostDirGoneError, OSError) as error:
        log.error("%s", error)
        sys.exit(1)


async def _run(settings: Settings, nvml: Nvml, offered: tuple[Offer, ...]) -> None:
    await Program(settings, nvml, offered).run()


def _default_library() -> Path:
    return Path(__file__).parent.parent / "_native" / "libnvshare.so"


def _option(flag: str, default: object, text: str, **more: Any) -> Callable[[Any], Any]:
    variable = "NVSHARE_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, default=default, envvar=variable, show_envvar=True, show_default=True, help=text, **more)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@_option("--gpus", "all", "GPUs to offer: all, or UUIDs and indices separated by commas.")
@_option("--virtual-devices", 10, "Slots per GPU.", type=click.IntRange(1, MOST_SLOTS))
@_option("--virtual-devices-per-gpu", "", "Exceptions: UUID-or-index=slots, separated by commas.")
@_option("--allocation-policy", "spread", "Which GPUs a container gets.", type=click.Choice(sorted(POLICIES)))
@_option("--device-strategy", "envvar", "How the runtime is told.", type=click.Choice([it.value for it in Strategy]))
@_option("--injection", "env", "How the library gets in.", type=click.Choice([it.value for it in Injection]))
@_option("--cdi-kind", "nvidia.com/gpu", "Vendor and class of the CDI devices.")
@_option("--resource-name", "nvshare.com/gpu", "The resource that pods ask for.")
@_option("--library", _default_library(), "The library to put on the host.", type=click.Path(path_type=Path))
@_option("--run-dir", "/var/run/nvshare", "The directory shared with pods.", type=click.Path(path_type=Path))
@_option("--host-run-dir", "", "The same directory as the host calls it, if it calls it otherwise.")
@_option("--kubelet-dir", "/var/lib/kubelet/device-plugins", "Kubelet's.", type=click.Path(path_type=Path))
@_option("--ignore-xids", "", "More XID errors that do not make a GPU unfit, separated by commas.")
@_option("--probe-seconds", 30.0, "How often each GPU is asked whether it is well.", type=click.FloatRange(0.1, 3600))
@_option("--debug", False, "Say more.", type=bool)
@click.version_option(__version__, prog_name="nvshare-device-plugin")
def main(**given: object) -> None:
    """Offer each GPU of this node to kubelet as several `nvshare.com/gpu`."""
    logging.basicConfig(
        level=logging.DEBUG if given["debug"] else logging.INFO,
        format="[NVSHARE][%(levelname)s]: %(message)s",
        stream=sys.stderr,
    )
    start(_settings(given))


def _settings(given: dict[str, object]) -> Settings:
    try:
        ignored = frozenset(int(code) for code in str(given["ignore_xids"]).split(",") if code.strip())
    except ValueError as error:
        raise click.BadParameter(f"--ignore-xids: {error}") from error
    run_dir = Path(str(given["run_dir"]))
    return Settings(
        gpus=str(given["gpus"]),
        virtual_devices=int(str(given["virtual_devices"])),
        virtual_devices_per_gpu=str(given["virtual_devices_per_gpu"]),
        policy=str(given["allocation_policy"]),
        options=Options(
            host_run_dir=str(given["host_run_dir"] or run_dir),
            strategy=Strategy(str(given["device_strategy"])),
            injection=Injection(str(given["injection"])),
            cdi_kind=str(given["cdi_kind"]),
        ),
        resource=str(given["resource_name"]),
        library=Path(str(given["library"])),
        kubelet_dir=Path(str(given["kubelet_dir"])),
        run_dir=run_dir,
        ignored_xids=ignored,
        probe_s=float(str(given["probe_seconds"])),
    )


if __name__ == "__main__":
    main()
