"""The environment in which a program shares its GPU. Pure: settings and an environment in, an environment out."""

from collections.abc import Mapping
from pathlib import Path

from nvshare.framework_settings import ALLOCATE_AS_NEEDED, for_simulated_gpu
from nvshare.record import Record

LIMIT_VARIABLE = "NVSHARE_GPU_MEMORY_LIMIT"
CORE_LIMIT_VARIABLE = "NVSHARE_GPU_CORE_LIMIT"
PRIORITY_VARIABLE = "NVSHARE_PRIORITY"
WEIGHT_VARIABLE = "NVSHARE_WEIGHT"


class ProgramSettings(Record, frozen=True):
    """The settings of one program; None: not set."""

    limit_bytes: int | None = None
    priority: int | None = None
    weight: int | None = None
    name: str | None = None
    run_id: str | None = None
    """32 hex digits; programs with the same one share a limit."""
    core_limit: int | None = None
    """Percent of each GPU's time."""
    preallocate: bool = False
    """Frameworks may allocate most of the GPU when they start, as they do by default."""

    def variables(self) -> dict[str, str]:
        """The variables that libnvshare reads."""
        said = {
            LIMIT_VARIABLE: self.limit_bytes,
            CORE_LIMIT_VARIABLE: self.core_limit,
            PRIORITY_VARIABLE: self.priority,
            WEIGHT_VARIABLE: self.weight,
            "NVSHARE_NAME": self.name,
            "NVSHARE_RUN_ID": self.run_id,
        }
        return {name: str(value) for name, value in said.items() if value is not None}

    def framework_variables(self) -> dict[str, str]:
        """What frameworks are told, unless the user tells them something else."""
        return {} if self.preallocate else ALLOCATE_AS_NEEDED


def shared(environment: Mapping[str, str], *, library: Path, socket: str, settings: ProgramSettings) -> dict[str, str]:
    """The environment with the settings, and with the library before everything else in LD_PRELOAD."""
    made = settings.framework_variables() | dict(environment) | settings.variables()
    made["NVSHARE_SOCKET"] = socket
    made.pop("NVSHARE_DISABLE", None)
    made["LD_PRELOAD"] = preload(library, environment.get("LD_PRELOAD", ""))
    return made


def on_simulated_gpu(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a simulated GPU with what frameworks need there."""
    return for_simulated_gpu(environment) | dict(environment)


def preload(library: Path, before: str) -> str:
    """LD_PRELOAD with the library first and once; names may be separated by blanks or colons."""
    others = [name for name in before.replace(" ", ":").split(":") if name and name != str(library)]
    return ":".join([str(library), *others])
