"""The operator's limits, and the weights, priorities, core limits and pauses of groups, are kept in files beside the
operator's socket, so that the next scheduler knows them. Orders about GPUs, mode and policy are settings and are not
kept.

A file is written as a whole and renamed into place each time the operator changes something, which is rare. If it
cannot be read or written, the orders are lost with the scheduler and the log reports it; the scheduler continues."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from nvshare.core.events import CoreLimitSet, LimitSet, PauseSet, PrioritySet, WeightSet
from nvshare.core.limits.groups import NO_ORDER, Order
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.usage_file import USAGE_FILE

LIMITS_FILE = "limits.json"
ORDERS_FILE = "orders.json"
Value = TypeVar("Value")
FRESH = ".new"
"""The suffix of the file that is being written."""
_OWN = (LIMITS_FILE, ORDERS_FILE, USAGE_FILE)
STATE_FILES = frozenset({*_OWN, *(name + FRESH for name in _OWN), "claims", "served"})
"""What may be in the operator's directory: also what the DRA driver and the device plugin keep there."""


class RememberedLimits:
    """Restores the orders of an earlier scheduler, and writes each change. `directory` is that of the socket."""

    def __init__(self, engine: Engine, directory: Path) -> None:
        self._engine = engine
        self._limits = directory / LIMITS_FILE
        self._orders = directory / ORDERS_FILE

    def restore(self) -> None:
        """Called before clients can connect."""
        for group, limit in _read(self._limits, int).items():
            self._engine.post(LimitSet(group, limit))
        for group, order in _read(self._orders, Order).items():
            if order.weight is not None:
                self._engine.post(WeightSet(group, order.weight))
            if order.priority is not None:
                self._engine.post(PrioritySet(group, order.priority))
            if order.core_limit is not None:
                self._engine.post(CoreLimitSet(group, order.core_limit))
            if order.is_paused:
                self._engine.post(PauseSet(True, group))
        for event in (LimitSet, WeightSet, PrioritySet, CoreLimitSet, PauseSet):
            self._engine.observers_of[event].append(self.observe)

    def observe(self, step: Step) -> None:
        """The operator said something about a group."""
        groups = self._engine.node.groups.values()
        if type(step.event) is LimitSet:
            _write(self._limits, {group.key: group.operator for group in groups if group.operator is not None})
        else:
            _write(self._orders, {group.key: group.order for group in groups if group.order != NO_ORDER})


def _read(path: Path, kind: type[Value]) -> dict[str, Value]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, kind])  # type: ignore[valid-type]
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning(f"Cannot read the operator's earlier orders from {path}: {error}")
        return {}


def _write(path: Path, values: Mapping[str, object]) -> None:
    fresh = path.with_name(path.name + FRESH)
    try:
        fresh.write_bytes(msgspec.json.encode(values))
        fresh.replace(path)
    except OSError as error:
        log.warning(f"Cannot save the operator's orders in {path}: {error.strerror}")
