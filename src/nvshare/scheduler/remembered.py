"""The operator's limits outlive the scheduler: a small file beside the operator's socket.

It is written whole, to a new file that takes the old one's place, each time the operator changes a limit; that is rare.
A file that cannot be read or written costs the memory of limits, and a line in the log, but never the scheduler."""

from pathlib import Path

import msgspec

from nvshare.core.events import LimitSet
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.log import log
from nvshare.scheduler.step import Step


class RememberedLimits:
    """Posts what an earlier scheduler was told, and writes down what this one is."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path

    def restore(self) -> None:
        """Before any client comes."""
        for group, limit in self._read().items():
            self._engine.post(LimitSet(group, limit))

    def observe(self, step: Step) -> None:
        if isinstance(step.event, LimitSet):
            self._write()

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            log.warning(f"The operator's limits of before cannot be read from {self._path}: {error}")
            return {}

    def _write(self) -> None:
        groups = self._engine.node.groups.values()
        limits = {group.key: group.operator for group in groups if group.operator is not None}
        fresh = self._path.with_name(self._path.name + ".new")
        try:
            fresh.write_bytes(msgspec.json.encode(limits))
            fresh.replace(self._path)
        except OSError as error:
            log.warning(f"The operator's limits cannot be kept in {self._path}: {error.strerror}")
