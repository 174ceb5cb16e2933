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
from nvshare.scheduler.in_range import CORE_LIMIT, LIMIT, PRIORITY, WEIGHT, all_in_range, in_range
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.usage_file import USAGE_FILE
from nvshare.scheduler.regular_file import read_regular

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
        for group, limit in all_in_range(_read(self._limits, int), LIMIT, str(self._limits)).items():
            self._engine.post(LimitSet(group, limit))
        for group, order in _read(self._orders, Order).items():
            self._restore_order(group, order, f"{self._orders}, {group}")
        for event in (LimitSet, WeightSet, PrioritySet, CoreLimitSet, PauseSet):
            self._engine.observers_of[event].append(self.observe)

    def _restore_order(self, group: str, order: Order, where: str) -> None:
        if (weight := in_range(order.weight, WEIGHT, where)) is not None:
            self._engine.post(WeightSet(group, weight))
        if (priority := in_range(order.priority, PRIORITY, where)) is not None:
            self._engine.post(PrioritySet(group, priority))
        if (core_limit := in_range(order.core_limit, CORE_LIMIT, where)) is not None:
            self._engine.post(CoreLimitSet(group, core_limit))
        if order.is_paused:
            self._engine.post(PauseSet(True, group))

    def observe(self, step: Step) -> None:
        """The operator said something about a group."""
        groups = self._engine.node.groups.values()
        if type(step.event) is LimitSet:
            _write(self._limits, {group.key: group.operator for group in groups if group.operator is not None})
        else:
            _write(self._orders, {group.key: group.order for group in groups if group.order != NO_ORDER})


def _read(path: Path, kind: type[Value]) -> dict[str, Value]:
    try:
        return msgspec.json.decode(read_regular(path), type=dict[str, kind])  # type: ignore[valid-type]
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
