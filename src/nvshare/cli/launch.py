"""The environment in which a program shares its GPU. Pure: settings and an environment in, an environment out."""

from collections.abc import Mapping
from pathlib import Path

from nvshare.record import Record


class Terms(Record, frozen=True):
    """On what terms a program shares; None: not said, the scheduler's or the program's own choice."""

    limit_bytes: int | None = None
    priority: int | None = None
    weight: int | None = None
    name: str | None = None
    run_id: str | None = None
    """32 hex digits; programs with the same one share a limit."""

    def variables(self) -> dict[str, str]:
        """What libnvshare reads."""
        said = {
            "NVSHARE_GPU_MEMORY_LIMIT": self.limit_bytes,
            "NVSHARE_PRIORITY": self.priority,
            "NVSHARE_WEIGHT": self.weight,
            "NVSHARE_NAME": self.name,
            "NVSHARE_RUN_ID": self.run_id,
        }
        return {name: str(value) for name, value in said.items() if value is not None}


def shared(environment: Mapping[str, str], *, library: Path, socket: str, terms: Terms) -> dict[str, str]:
    """The environment with the library in front of everything that was preloaded before, and the terms."""
    made = dict(environment) | terms.variables()
    made["NVSHARE_SOCKET"] = socket
    made.pop("NVSHARE_DISABLE", None)
    made["LD_PRELOAD"] = preload(library, environment.get("LD_PRELOAD", ""))
    return made


def preload(library: Path, before: str) -> str:
    """LD_PRELOAD with the library first and once; the linker takes blanks as well as colons between names."""
    others = [name for name in before.replace(" ", ":").split(":") if name and name != str(library)]
    return ":".join([str(library), *others])
