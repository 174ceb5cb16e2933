"""The operator's limits are kept in a file beside the operator's socket, so that the next scheduler knows them.

The file is written as a whole and renamed into place each time the operator changes a limit, which is rare. If it
cannot be read or written, the limits are lost with the scheduler and the log says so; the scheduler goes on."""

from pathlib import Path

import msgspec

from nvshare.core.events import LimitSet
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log

LIMITS_FILE = "limits.json"
FRESH = ".new"
"""The suffix of the file that is being written."""
STATE_FILES = frozenset({LIMITS_FILE, LIMITS_FILE + FRESH, "claims", "served"})
"""What may be in the operator's directory: also what the DRA driver and the device plugin keep there."""


class RememberedLimits:
    """Restores the limits of an earlier scheduler, and writes each change."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def restore(self) -> None:
        """Called before clients can connect."""
        for group, limit in self._read().items():
            self._engine.post(LimitSet(group, limit))

    def observe(self, step: Step) -> None:
        """The operator set a limit."""
        self._write()

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            log.warning(f"Cannot read the operator's earlier limits from {self._path}: {error}")
            return {}

    def _write(self) -> None:
        groups = self._engine.node.groups.values()
        limits = {group.key: group.operator for group in groups if group.operator is not None}
        fresh = self._path.with_name(self._path.name + FRESH)
        try:
            fresh.write_bytes(msgspec.json.encode(limits))
            fresh.replace(self._path)
        except OSError as error:
            log.warning(f"Cannot save the operator's limits in {self._path}: {error.strerror}")
