"""Which client held which GPU from when to when, and which waited how long, from the scheduler's journal."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

Span = tuple[int, int]


def steps(journal: Path) -> Iterator[tuple[int, str, dict[str, object]]]:
    """(time, name, fields) of every action."""
    for line in journal.read_bytes().splitlines():
        step = msgspec.json.decode(line)
        for action in step.get("actions", ()):
            for name, fields in action.items():
                yield step["now"], name, fields


def turns_of(journal: Path) -> dict[tuple[int, str], list[Span]]:
    """When each client held each GPU. A lock that is still held does not count."""
    begun: dict[object, int] = {}
    held: dict[tuple[int, str], list[Span]] = {}
    for now, name, fields in steps(journal):
        if name == "GiveLock":
            begun[fields["lock"]] = now
        elif name == "EndTurn":
            key = int(str(fields["client"])), str(fields["gpu"])
            held.setdefault(key, []).append((begun[fields["lock"]], now))
    return held


def common(one: list[Span], other: list[Span]) -> int:
    """How long both lasted at the same time."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


def share_of_two(held: dict[tuple[int, str], list[Span]]) -> float:
    """How much of the time in which all worked the client on two GPUs held both."""
    [client] = {client for client, _ in held if sum(one == client for one, _ in held) == 2}
    first, second = (held[key] for key in sorted(held) if key[0] == client)
    rivals = [spans for (one, _), spans in sorted(held.items()) if one != client]
    all_work = max(spans[0][0] for spans in held.values()), min(spans[-1][1] for spans in rivals)
    return common(first, second) / (all_work[1] - all_work[0])


def waits_of(journal: Path) -> list[float]:
    """How long each lock was waited for, in seconds."""
    return [int(str(fields["waited_ns"])) / 1e9 for _, name, fields in steps(journal) if name == "GiveLock"]


def switches_of(journal: Path) -> list[float]:
    """How long each GPU went from one client to the next, in seconds: from the first lock that must be released to the
    next one that is given."""
    begun: dict[object, int] = {}
    found = []
    for now, name, fields in steps(journal):
        if name == "DropLock":
            begun.setdefault(fields["gpu"], now)
        elif name == "GiveLock" and fields["gpu"] in begun:
            found.append((now - begun.pop(fields["gpu"])) / 1e9)
    return found
