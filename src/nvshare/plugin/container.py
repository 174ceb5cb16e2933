"""What a container gets so that it shares its GPUs: environment, mounts, devices. Pure.

Two directories are mounted, read-only. Single files are not: a container keeps the old file after it is replaced, and
a container runtime makes a directory for a missing source. ld.so.preload must be a file; its content never changes.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from nvshare.config import RUN_DIRECTORY
from nvshare.framework_settings import ALLOCATE_AS_NEEDED
from nvshare.native_directory import CONTAINER_DIRECTORY, LIBRARY
from nvshare.record import Record

PRELOAD_FILE = "ld.so.preload"
_VOLUME_MOUNTS_ROOT = "/var/run/nvidia-container-devices"


class Strategy(StrEnum):
    """How the container runtime is told which GPUs to add."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI = "cdi"


class Injection(StrEnum):
    """How the library gets into the container's programs."""

    ENV = "env"
    LD_SO_PRELOAD = "ld.so.preload"


class Options(Record, frozen=True):
    """The plugin's settings for containers."""

    host_run_dir: str = RUN_DIRECTORY
    strategy: Strategy = Strategy.ENVVAR
    injection: Injection = Injection.ENV
    cdi_kind: str = "nvidia.com/gpu"
    preallocate: bool = False
    """Frameworks may allocate most of the GPU when they start, as they do by default."""

    @property
    def host_library_dir(self) -> str:
        """Where the library is on the host."""
        return f"{self.host_run_dir}/lib"


class Mount(Record, frozen=True):
    """A read-only bind mount."""

    host: str
    container: str


class Container(Record, frozen=True):
    """The answer of Allocate for one container."""

    envs: Mapping[str, str]
    mounts: tuple[Mount, ...]
    cdi_devices: tuple[str, ...] = ()


def container(gpus: Sequence[str], options: Options) -> Container:
    """What a container with these GPUs (UUIDs, each once) gets."""
    envs, mounts, cdi_devices = _devices_for(gpus, options)
    mounts += [
        Mount(host=options.host_run_dir, container=RUN_DIRECTORY),
        Mount(host=options.host_library_dir, container=str(CONTAINER_DIRECTORY)),
    ]
    if options.injection is Injection.ENV:
        envs["LD_PRELOAD"] = f"{CONTAINER_DIRECTORY}/{LIBRARY}"
    else:
        mounts.append(Mount(host=f"{options.host_library_dir}/{PRELOAD_FILE}", container="/etc/ld.so.preload"))
    if not options.preallocate:
        envs |= ALLOCATE_AS_NEEDED  # the environment in the pod's spec overrides this
    return Container(envs=envs, mounts=tuple(mounts), cdi_devices=tuple(cdi_devices))


def _devices_for(gpus: Sequence[str], options: Options) -> tuple[dict[str, str], list[Mount], list[str]]:
    match options.strategy:
        case Strategy.ENVVAR:
            return {"NVIDIA_VISIBLE_DEVICES": ",".join(gpus)}, [], []
        case Strategy.VOLUME_MOUNTS:
            mounts = [Mount(host="/dev/null", container=f"{_VOLUME_MOUNTS_ROOT}/{uuid}") for uuid in gpus]
            return {"NVIDIA_VISIBLE_DEVICES": _VOLUME_MOUNTS_ROOT}, mounts, []
        case Strategy.CDI:
            # CUDA images carry NVIDIA_VISIBLE_DEVICES=all; without this a legacy runtime would add every GPU.
            return {"NVIDIA_VISIBLE_DEVICES": "void"}, [], [f"{options.cdi_kind}={uuid}" for uuid in gpus]
