"""Replays the journal of a daemon through the core: the actions are the same, or the first difference is shown.

Steps before the first start of a daemon (a new file was begun when the old one was full) cannot be replayed and are
skipped."""

from collections.abc import Iterable

from nvshare.core import actions as ac
from nvshare.core.node import Node
from nvshare.journal import DaemonStart, JournalError, Step, read
from nvshare.record import Record


class Difference(Record, frozen=True):
    line: int
    step: Step
    ours: tuple[ac.Action, ...]


class Replayed(Record, frozen=True):
    daemons: int
    steps: int
    skipped: int
    difference: Difference | None


def replay(lines: Iterable[bytes]) -> Replayed:
    """All daemons of a file, each through a fresh core, until something differs."""
    node: Node | None = None
    count = daemons = skipped = 0
    for line, entry in read(lines):
        if isinstance(entry, DaemonStart):
            node = entry.node()
            daemons += 1
        elif node is None:
            skipped += 1
        else:
            count += 1
            ours = _handle(node, entry, line)
            if ours != entry.actions:
                return Replayed(daemons, count, skipped, Difference(line, entry, ours))
    return Replayed(daemons, count, skipped, None)


def _handle(node: Node, step: Step, line: int) -> tuple[ac.Action, ...]:
    try:
        return tuple(node.handle(step.now, step.event))
    except (AssertionError, KeyError) as error:
        raise JournalError(
            f"line {line} does not follow from the lines before it ({error!r}): lines are missing, or another version"
            " of nvshare wrote the journal"
        ) from None
