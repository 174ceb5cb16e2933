"""The operator's limits, and the weights, priorities, core limits and pauses of groups, are kept in files beside the
operator's socket, so that the next scheduler knows them. Orders about GPUs, mode and policy are settings and are not
kept.

    limits.json   group -> memory limit, for each group that has one of the operator
    orders.json   group -> its other orders. Also has the groups of limits.json: the next one to be forgotten is first

A file is written as a whole and renamed into place each time the operator changes something, or the core forgets a
group with orders (ReportForgotten); both are rare. If it cannot be read or written, the orders are lost with the
scheduler and the log reports it; the scheduler continues."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nvshare.core.actions import ReportForgotten
from nvshare.core.events import CoreLimitSet, Event, LimitSet, PauseSet, PrioritySet, WeightSet
from nvshare.core.limits.group_order import NO_ORDER, Order
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.in_range import CORE_LIMIT, LIMIT, PRIORITY, WEIGHT, all_in_range, in_range
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.usage_file import USAGE_FILE
from nvshare.scheduler.regular_file import read_regular

LIMITS_FILE = "limits.json"
ORDERS_FILE = "orders.json"
Value = TypeVar("Value")
ORDERS = LimitSet, WeightSet, PrioritySet, CoreLimitSet, PauseSet
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
        limits = all_in_range(_read(self._limits, int), LIMIT, str(self._limits))
        orders = _read(self._orders, Order)
        steps: list[Step] = []
        for group in [group for group in limits if group not in orders] + list(orders):
            if group in limits:
                steps.append(self._engine.post(LimitSet(group, limits[group])))
            steps += self._restore_order(group, orders.get(group, NO_ORDER))
        if any(_is_forgotten(step) for step in steps):
            self._save()
        self._engine.observers.append(self.observe)

    def _restore_order(self, group: str, order: Order) -> list[Step]:
        where = f"{self._orders}, {group}"
        events: list[Event] = []
        if (weight := in_range(order.weight, WEIGHT, where)) is not None:
            events.append(WeightSet(group, weight))
        if (priority := in_range(order.priority, PRIORITY, where)) is not None:
            events.append(PrioritySet(group, priority))
        if (core_limit := in_range(order.core_limit, CORE_LIMIT, where)) is not None:
            events.append(CoreLimitSet(group, core_limit))
        if order.is_paused:
            events.append(PauseSet(True, group))
        return [self._engine.post(event) for event in events]

    def observe(self, step: Step) -> None:
        """The operator said something about a group, or the core has forgotten it."""
        if type(step.event) in ORDERS or _is_forgotten(step):
            self._save()

    def _save(self) -> None:
        ordered = [group for group in self._engine.node.groups.values() if group.is_ordered]
        ordered.sort(key=lambda group: bool(group.limits))  # Those with clients are the last to be forgotten.
        try:
            _write(self._limits, {group.key: group.operator for group in ordered if group.operator is not None})
            _write(self._orders, {group.key: group.order for group in ordered})
        except OSError as error:
            log.warning(f"Cannot save the operator's orders in {self._orders.parent}: {error.strerror}")


def _is_forgotten(step: Step) -> bool:
    return any(type(action) is ReportForgotten for action in step.actions)


def _read(path: Path, kind: type[Value]) -> dict[str, Value]:
    try:
        return msgspec.json.decode(read_regular(path), type=dict[str, kind])  # type: ignore[valid-type]
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning(f"Cannot read the operator's earlier orders from {path}: {error}")
        return {}


def _write(path: Path, values: dict[str, Any]) -> None:
    fresh = path.with_name(path.name + FRESH)
    fresh.write_bytes(msgspec.json.encode(values))
    fresh.replace(path)
