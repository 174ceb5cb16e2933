"""nvshare-device-plugin: offers each GPU of this node to kubelet as several `nvshare.com/gpu`."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from nvshare import __version__
from nvshare.config import RUN_DIRECTORY
from nvshare.inventory.gpus import Gpu, SelectionError, select
from nvshare.inventory.nvml import Nvml, NvmlUnavailableError
from nvshare.native_directory import LIBRARY, NATIVE
from nvshare.plugin.container import Injection, Options, Strategy
from nvshare.plugin.health_watch import HealthWatch
from nvshare.plugin.install import HostDirGoneError
from nvshare.plugin.installed_library import InstalledLibrary
from nvshare.plugin.lifecycle import Lifecycle
from nvshare.plugin.options import option
from nvshare.plugin.served_gpus import DEVICE_PLUGIN, GpuServedError, ServedGpus
from nvshare.plugin.service import DevicePlugin
from nvshare.plugin.signals import until_signalled
from nvshare.plugin.slots import MAX_SLOTS, POLICIES, Offer, offers
from nvshare.record import Record

log = logging.getLogger("nvshare.plugin")

SOCKETS = "nvshare"
"""The names of our sockets in kubelet's directory begin with this."""


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
    served_dir: Path
    ignored_xids: frozenset[int]
    probe_s: float


class Program:
    """The plugin: its parts and its tasks."""

    def __init__(self, settings: Settings, nvml: Nvml, offered: tuple[Offer, ...]) -> None:
        self._settings = settings
        self._installed = InstalledLibrary(settings.library, settings.run_dir)
        self._plugin = DevicePlugin(
            offered, POLICIES[settings.policy], settings.options, prepare=self._installed.install
        )
        self._health = HealthWatch(
            nvml,
            tuple(offer.gpu.uuid for offer in offered),
            ignored_xids=settings.ignored_xids,
            probe_s=settings.probe_s,
            publish=self._publish_health,
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, or until the host's directory is gone."""
        self._installed.install()
        lifecycle = Lifecycle(
            self._plugin, directory=self._settings.kubelet_dir, name=SOCKETS, resource=self._settings.resource
        )
        await until_signalled(lifecycle.run(), self._installed.keep(), self._health.run())

    async def _publish_health(self, unhealthy: Mapping[str, str]) -> None:
        await self._plugin.set_unhealthy(frozenset(unhealthy))


def offered_gpus(settings: Settings, found: tuple[Gpu, ...]) -> tuple[Offer, ...]:
    """What this node offers; raises SelectionError if the settings name a GPU that is not there."""
    if not found:
        raise SelectionError("this node has no GPU")
    chosen = offers(select(found, settings.gpus), settings.virtual_devices, settings.virtual_devices_per_gpu)
    if not any(offer.slots for offer in chosen):
        raise SelectionError("with these settings there is no GPU to offer")
    return chosen


def start(settings: Settings) -> None:
    """Run the plugin; exits with 2 after a wrong setting, with 1 after another error, each with one line in the log."""
    served = ServedGpus(settings.served_dir, DEVICE_PLUGIN)
    try:
        with Nvml() as nvml:
            offered = offered_gpus(settings, nvml.discover())
            served.take(offer.gpu.uuid for offer in offered if offer.slots)
            for offer in offered:
                log.info("GPU %d %s %s: %d slots", offer.gpu.index, offer.gpu.uuid, offer.gpu.name, offer.slots)
            asyncio.run(_run(settings, nvml, offered))
    except SelectionError as error:
        log.error("%s", error)
        sys.exit(2)
    except (NvmlUnavailableError, HostDirGoneError, GpuServedError, OSError) as error:
        log.error("%s", error)
        sys.exit(1)
    finally:
        served.release()


async def _run(settings: Settings, nvml: Nvml, offered: tuple[Offer, ...]) -> None:
    await Program(settings, nvml, offered).run()


def _default_library() -> Path:
    return NATIVE / LIBRARY


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@option("--gpus", "all", "GPUs to offer: all, or a comma-separated list of UUIDs and indices.")
@option("--virtual-devices", 10, "Slots per GPU.", type=click.IntRange(1, MAX_SLOTS))
@option("--virtual-devices-per-gpu", "", "Exceptions, comma-separated: UUID-or-index=slots.")
@option(
    "--allocation-policy",
    "spread",
    "spread: different GPUs, least loaded first; pack: few GPUs.",
    type=click.Choice(sorted(POLICIES)),
)
@option(
    "--device-strategy",
    "envvar",
    "How the container runtime gets the GPUs.",
    type=click.Choice([it.value for it in Strategy]),
)
@option("--injection", "env", "How containers load the library.", type=click.Choice([it.value for it in Injection]))
@option("--cdi-kind", "nvidia.com/gpu", "Vendor and class of the CDI devices.")
@option("--preallocate", False, "Let TensorFlow and JAX allocate most of a GPU when they start.", type=bool)
@option("--resource-name", "nvshare.com/gpu", "Name of the resource.")
@option("--library", _default_library(), "Library that is installed on the host.", type=click.Path(path_type=Path))
@option("--run-dir", RUN_DIRECTORY, "Directory that is mounted into pods.", type=click.Path(path_type=Path))
@option("--host-run-dir", "", "Path of this directory on the host, if different.")
@option(
    "--kubelet-dir", "/var/lib/kubelet/device-plugins", "Plugin directory of kubelet.", type=click.Path(path_type=Path)
)
@option(
    "--served-dir",
    "/run/nvshare-operator/served",
    "Directory of locks: no GPU is offered by nvshare-dra-driver as well.",
    type=click.Path(path_type=Path),
)
@option("--ignore-xids", "", "More XID errors that do not make a GPU unhealthy, comma-separated.")
@option("--probe-seconds", 30.0, "Seconds between two health checks of a GPU.", type=click.FloatRange(0.1, 3600))
@option("--debug", False, "Log more.", type=bool)
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
            preallocate=bool(given["preallocate"]),
        ),
        resource=str(given["resource_name"]),
        library=Path(str(given["library"])),
        kubelet_dir=Path(str(given["kubelet_dir"])),
        run_dir=run_dir,
        served_dir=Path(str(given["served_dir"])),
        ignored_xids=ignored,
        probe_s=float(str(given["probe_seconds"])),
    )


if __name__ == "__main__":
    main()
