"""The format of the journal: one line of JSON for each step of the core. Pure.

    {"now": 7, "daemon": {"now": 7, "settings": {...}, "epoch": 3, "settles_at": null, "expects_pods": false}}
    {"now": 8, "time": 1.7e9, "event": {"ClientLeft": {...}}, "actions": [{"GiveLock": {...}}]}

The first line of each daemon says how its core was made; its steps follow. The scheduler writes journals
(`scheduler/observe/journal.py`), the simulator replays them (`schedsim/replay.py`)."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import Settings
from nvshare.core.node import Node
from nvshare.record import Record

EVENTS: dict[str, type[ev.Event]] = {kind.__name__: kind for kind in ev.Event.__subclasses__()}
ACTIONS: dict[str, type[ac.Action]] = {kind.__name__: kind for kind in ac.Action.__subclasses__()}


class JournalError(Exception):
    """The file is not a journal, or not one that can be replayed; the text names the line."""


class Step(Record, frozen=True):
    """What `core.Node.handle` was given and what it answered. `now` is monotonic, `time` seconds since 1970."""

    now: int
    time: float
    event: ev.Event
    actions: tuple[ac.Action, ...]


class DaemonStart(Record, frozen=True):
    """How the core of a daemon was made: what a replay needs besides the steps."""

    now: int
    settings: Settings
    epoch: int
    settles_at: int | None
    expects_pods: bool

    def node(self) -> Node:
        """The core as it was before the first step."""
        return Node(self.settings, epoch=self.epoch, settles_at=self.settles_at, expects_pods=self.expects_pods)


def line_of(entry: Step | DaemonStart) -> bytes:
    """A step or a start as one line. The kinds of event and actions are named."""
    if isinstance(entry, DaemonStart):
        return msgspec.json.encode({"now": entry.now, "daemon": entry}) + b"\n"
    step = {
        "now": entry.now,
        "time": entry.time,
        "event": named(entry.event),
        "actions": [named(action) for action in entry.actions],
    }
    return msgspec.json.encode(step) + b"\n"


def named(record: ev.Event | ac.Action) -> dict[str, object]:
    """An event or action under the name of its kind."""
    return {type(record).__name__: record}


def read(lines: Iterable[bytes]) -> Iterator[tuple[int, Step | DaemonStart]]:
    """The entries of a journal, each with the number of its line; raises JournalError."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _entry_of(msgspec.json.decode(line))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"line {number} is not a step of a journal: {error}") from None


def _entry_of(values: dict[str, Any]) -> Step | DaemonStart:
    if "daemon" in values:
        return msgspec.convert(values["daemon"], DaemonStart)
    return Step(
        msgspec.convert(values["now"], int),
        msgspec.convert(values["time"], float),
        _from_named(values["event"], EVENTS),
        tuple(_from_named(action, ACTIONS) for action in values["actions"]),
    )


def _from_named(values: dict[str, Any], kinds: dict[str, type[Any]]) -> Any:
    ((name, fields),) = values.items()
    return msgspec.convert(fields, kinds[name])
