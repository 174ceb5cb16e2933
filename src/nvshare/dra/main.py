"""nvshare-dra-driver: offers each GPU of this node to claims of Dynamic Resource Allocation."""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from nvshare import __version__
from nvshare.claim_file import DIRECTORY
from nvshare.config import RUN_DIRECTORY
from nvshare.dra.cdi import CdiOptions
from nvshare.dra.devices import DRIVER, ORDERS, SharedGpu, device, ordered, slice_specs
from nvshare.dra.ended_slots import forget_ended_slots
from nvshare.dra.lifecycle import Lifecycle
from nvshare.dra.preparation import Preparation
from nvshare.dra.prepared_claims import PreparedClaims
from nvshare.dra.publisher import Publisher, UnsupportedClusterError
from nvshare.dra.service import DeviceHealth, plugin_handlers
from nvshare.inventory.gpus import Gpu, SelectionError, select
from nvshare.inventory.nvml import Nvml, NvmlUnavailableError
from nvshare.kube.client import Api, Server, in_cluster
from nvshare.native_directory import LIBRARY, NATIVE
from nvshare.plugin.container import Injection
from nvshare.plugin.health_watch import HealthWatch
from nvshare.plugin.install import HostDirGoneError
from nvshare.plugin.installed_library import InstalledLibrary
from nvshare.plugin.options import option
from nvshare.plugin.served_gpus import DRA_DRIVER, GpuServedError, ServedGpus
from nvshare.plugin.signals import until_signalled
from nvshare.record import Record

log = logging.getLogger("nvshare.dra")

_LONGEST_UNIX_PATH = 107


class Settings(Record, frozen=True):
    """Everything that can be set, by flag or environment."""

    node: str
    gpus: str
    slots: int
    oversubscription: Fraction
    order: str
    options: CdiOptions
    library: Path
    run_dir: Path
    operator_dir: Path
    cdi_dir: Path
    plugins_dir: Path
    registry_dir: Path
    pod_resources_dir: Path
    instance: str
    ignored_xids: frozenset[int]
    probe_s: float


class Program:
    """The driver: its parts and its tasks."""

    def __init__(self, settings: Settings, nvml: Nvml, server: Server, offered: tuple[SharedGpu, ...]) -> None:
        self._settings = settings
        self._offered = offered
        self._unhealthy: Mapping[str, str] = {}
        self._installed = InstalledLibrary(settings.library, settings.run_dir)
        api = Api(server, agent=DRA_DRIVER)
        own_dir = settings.plugins_dir / DRIVER
        own_dir.mkdir(parents=True, exist_ok=True)
        self._publisher = Publisher(api, settings.node, own_dir / "publisher.lock")
        self._preparation = Preparation(
            api,
            settings.node,
            {shared.name: shared for shared in offered},
            PreparedClaims(settings.operator_dir / DIRECTORY, settings.cdi_dir, settings.options),
            install=self._installed.install,
            changed=self._publish,
            forget_slots=lambda: forget_ended_slots(settings.pod_resources_dir),
        )
        self._device_health = DeviceHealth(settings.node, {shared.gpu.uuid: shared.name for shared in offered})
        self._health = HealthWatch(
            nvml,
            tuple(shared.gpu.uuid for shared in offered),
            ignored_xids=settings.ignored_xids,
            probe_s=settings.probe_s,
            publish=self._publish_health,
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT, or until the host's directory is gone."""
        self._installed.install()
        self._preparation.store.load()
        lifecycle = Lifecycle(
            plugin_handlers(self._preparation, self._device_health),
            plugins_dir=self._settings.plugins_dir,
            registry_dir=self._settings.registry_dir,
            instance=self._settings.instance,
        )
        await until_signalled(
            lifecycle.run(),
            self._installed.keep(),
            self._health.run(),
            self._publisher.keep(self._publish),
            self._clean_up(),
        )

    async def _clean_up(self) -> None:
        await self._preparation.remove_leftovers()
        await asyncio.Event().wait()  # a task of the program that ends would end the program

    def _publish(self) -> None:
        """Publish the devices in the order of their load now."""
        consumed = self._preparation.store.consumed_bytes()
        devices = [
            device(shared, self._unhealthy.get(shared.gpu.uuid, ""))
            for shared in ordered(self._offered, consumed, ORDERS[self._settings.order])
        ]
        self._publisher.publish(slice_specs(self._settings.node, devices))

    async def _publish_health(self, unhealthy: Mapping[str, str]) -> None:
        self._unhealthy = dict(unhealthy)
        self._publish()
        await self._device_health.set_unhealthy(unhealthy)


def offered_gpus(settings: Settings, found: tuple[Gpu, ...], nvml: Nvml) -> tuple[SharedGpu, ...]:
    """What this node offers; raises SelectionError if the settings name a GPU that is not there."""
    if not found:
        raise SelectionError("this node has no GPU")
    version = nvml.driver_version()
    return tuple(
        SharedGpu(
            gpu=gpu,
            slots=settings.slots,
            oversubscription=settings.oversubscription,
            architecture=nvml.architecture(gpu.uuid),
            driver_version=version,
        )
        for gpu in select(found, settings.gpus)
    )


def start(settings: Settings, server: Server) -> None:
    """Run the driver; exits with 2 after a wrong setting, with 1 after another error, each with one line in the log."""
    served = ServedGpus(settings.operator_dir / "served", DRA_DRIVER)
    try:
        with Nvml() as nvml:
            offered = offered_gpus(settings, nvml.discover(), nvml)
            served.take(shared.gpu.uuid for shared in offered)
            for shared in offered:
                log.info("GPU %s %s: %d bytes", shared.gpu.uuid, shared.gpu.name, shared.capacity_bytes)
            asyncio.run(_run(settings, nvml, server, offered))
    except SelectionError as error:
        log.error("%s", error)
        sys.exit(2)
    except (NvmlUnavailableError, HostDirGoneError, GpuServedError, UnsupportedClusterError, OSError) as error:
        log.error("%s", error)
        sys.exit(1)
    finally:
        served.release()


async def _run(settings: Settings, nvml: Nvml, server: Server, offered: tuple[SharedGpu, ...]) -> None:
    await Program(settings, nvml, server, offered).run()


def _directory(flag: str, default: str, text: str) -> Callable[[Any], Any]:
    return option(flag, default, text, type=click.Path(path_type=Path))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@option("--node-name", "", "Name of this node in the cluster.")
@option("--gpus", "all", "GPUs to offer: all, or a comma-separated list of UUIDs and indices.")
@option("--slots", 10, "How many claims may share a GPU.", type=click.IntRange(1, 1000))
@option("--oversubscription", "2", "Memory that claims may have, as a multiple of the GPU's memory.")
@option(
    "--placement",
    "spread",
    "spread: the least loaded GPU first; pack: the fullest first.",
    type=click.Choice(sorted(ORDERS)),
)
@option(
    "--injection",
    "ld.so.preload",
    "How containers load the library.",
    type=click.Choice([it.value for it in Injection]),
)
@option("--cdi-kind", "nvidia.com/gpu", "Vendor and class of the GPUs' CDI devices.")
@option("--preallocate", False, "Let TensorFlow and JAX allocate most of a GPU when they start.", type=bool)
@option("--library", NATIVE / LIBRARY, "Library that is installed on the host.", type=click.Path(path_type=Path))
@_directory("--run-dir", RUN_DIRECTORY, "Directory that is mounted into pods.")
@option("--host-run-dir", "", "Path of this directory on the host, if different.")
@_directory("--operator-dir", "/run/nvshare-operator", "Directory of the operator, where the scheduler reads claims.")
@_directory("--cdi-dir", "/var/run/cdi", "Directory of CDI files.")
@_directory("--kubelet-plugins-dir", "/var/lib/kubelet/plugins", "Directory of kubelet for sockets of plugins.")
@_directory("--kubelet-registry-dir", "/var/lib/kubelet/plugins_registry", "Directory in which kubelet finds plugins.")
@_directory("--kubelet-pod-resources-dir", "/var/lib/kubelet/pod-resources", "Directory of kubelet's list of pods.")
@option("--instance", "", "Part of the names of the sockets; the UID of the pod, so that two can run in an update.")
@option("--ignore-xids", "", "More XID errors that do not make a GPU unhealthy, comma-separated.")
@option("--probe-seconds", 30.0, "Seconds between two health checks of a GPU.", type=click.FloatRange(0.1, 3600))
@option("--debug", False, "Log more.", type=bool)
@click.version_option(__version__, prog_name=DRA_DRIVER)
def main(**given: Any) -> None:
    """Offer each GPU of this node to claims of Dynamic Resource Allocation."""
    logging.basicConfig(
        level=logging.DEBUG if given["debug"] else logging.INFO,
        format="[NVSHARE][%(levelname)s]: %(message)s",
        stream=sys.stderr,
    )
    settings = _settings(given)
    server = in_cluster()
    if server is None:
        log.error("not inside a Kubernetes cluster: KUBERNETES_SERVICE_HOST or the service account's token is missing")
        sys.exit(2)
    start(settings, server)


def _settings(given: Mapping[str, Any]) -> Settings:
    if not given["node_name"]:
        raise click.BadParameter("--node-name: is missing; in a pod set NVSHARE_NODE_NAME from spec.nodeName")
    longest = given["kubelet_registry_dir"] / f"{DRIVER}-{given['instance']}-reg.sock"
    if len(str(longest)) > _LONGEST_UNIX_PATH:
        raise click.BadParameter(f"--instance: {longest} is too long for a socket")
    return Settings(
        node=given["node_name"],
        gpus=given["gpus"],
        slots=given["slots"],
        oversubscription=_factor(given["oversubscription"]),
        order=given["placement"],
        options=CdiOptions(
            host_run_dir=given["host_run_dir"] or str(given["run_dir"]),
            injection=Injection(given["injection"]),
            gpu_kind=given["cdi_kind"],
            preallocate=bool(given["preallocate"]),
        ),
        library=given["library"],
        run_dir=given["run_dir"],
        operator_dir=given["operator_dir"],
        cdi_dir=given["cdi_dir"],
        plugins_dir=given["kubelet_plugins_dir"],
        registry_dir=given["kubelet_registry_dir"],
        pod_resources_dir=given["kubelet_pod_resources_dir"],
        instance=given["instance"],
        ignored_xids=_numbers(given["ignore_xids"]),
        probe_s=given["probe_seconds"],
    )


def _factor(text: str) -> Fraction:
    try:
        factor = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(f"--oversubscription: {text!r} is not a number") from error
    if not Fraction(1, 10) <= factor <= 100:
        raise click.BadParameter(f"--oversubscription: {text} is not from 0.1 to 100")
    return factor


def _numbers(text: str) -> frozenset[int]:
    try:
        return frozenset(int(code) for code in text.split(",") if code.strip())
    except ValueError as error:
        raise click.BadParameter(f"--ignore-xids: {error}") from error


if __name__ == "__main__":
    main()
