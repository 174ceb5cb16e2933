"""A daemon's journal file, played once more through the core: the same actions, or the first difference.

Each daemon that wrote to the file began with a line of its own that says how it was set up; its steps follow. Steps
before the first such line (the file was started anew at its largest size) cannot be replayed and are passed over."""

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
    """The file is not a journal, or not one that can be replayed; says which line."""


class Life(Record, frozen=True):
    """How a daemon began, as scheduler.journal writes it."""

    settings: Settings
    epoch: int
    settles_at: int | None
    expects_pods: bool


class Step(Record, frozen=True):
    line: int
    now: int
    event: ev.Event
    actions: tuple[ac.Action, ...]


class Difference(Record, frozen=True):
    step: Step
    ours: tuple[ac.Action, ...]


class Replayed(Record, frozen=True):
    daemons: int
    steps: int
    passed_over: int
    difference: Difference | None


def read(lines: Iterable[bytes]) -> Iterator[Step | Life]:
    """Steps, and before each daemon's steps its beginning."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said: dict[str, Any] = msgspec.json.decode(line)
            if "daemon" in said:
                yield msgspec.convert(said["daemon"], Life)
                continue
            yield Step(
                number,
                msgspec.convert(said["now"], int),
                _read_named(said["event"], EVENTS),
                tuple(_read_named(action, ACTIONS) for action in said["actions"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise JournalError(f"line {number} is not a step of a journal: {error}") from None


def _read_named(said: dict[str, Any], kinds: dict[str, type[Any]]) -> Any:
    ((name, fields),) = said.items()
    return msgspec.convert(fields, kinds[name])


def replay(lines: Iterable[bytes]) -> Replayed:
    """All daemons of a file, each through a fresh core, until something differs."""
    node: Node | None = None
    count = daemons = passed_over = 0
    for step in read(lines):
        if isinstance(step, Life):
            node = Node(step.settings, epoch=step.epoch, settles_at=step.settles_at, expects_pods=step.expects_pods)
            daemons += 1
        elif node is None:
            passed_over += 1
        else:
            count += 1
            ours = _handle(node, step)
            if ours != step.actions:
                return Replayed(daemons, count, passed_over, Difference(step, ours))
    return Replayed(daemons, count, passed_over, None)


def _handle(node: Node, step: Step) -> tuple[ac.Action, ...]:
    try:
        return tuple(node.handle(step.now, step.event))
    except (AssertionError, KeyError) as error:
        text = (
            f"line {step.line} does not follow from those before ({error!r}): lines were lost, or the core is another"
        )
        raise JournalError(text) from None
