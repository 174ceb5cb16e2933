"""Programs on several simulated GPUs under the real scheduler: their locks are given and taken together.

The scheduler's journal judges: who held which GPU from when to when."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from libnvshare.machine import Machine
from libnvshare.programs import GIB

FIXED_1S = ("--switch-time-mode=fixed", "--switch-time-fixed=1")
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


def within(spans: list[Span], whole: Span) -> int:
    return common(spans, [whole])


def test_a_process_on_two_gpus_gets_its_share_of_both_beside_one_on_each(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with Machine(tmp_path, *FIXED_1S, f"--journal-file={journal}", gpus=2) as machine:
        others = [machine.client(10 * GIB, gpu=gpu) for gpu in range(2)]
        two = machine.client(10 * GIB)
        two.do("init 1")
        two.do(f"alloc {10 * GIB}")
        # Different quanta: the ends of turns on the two GPUs do not coincide by chance.
        machine.daemon.ctl("set-tq", "2", "--gpu", machine.daemon.status()["gpus"][1]["uuid"])
        for other in others:
            other.say("loop 500000 14000 4")
        two.say("alternate 500000 14000")
        for program in (two, *others):
            assert program.answer(60)[0] == "0"
    held = turns_of(journal)
    [client] = {client for client, _ in held if sum(one == client for one, _ in held) == 2}
    first, second = (held[key] for key in sorted(held) if key[0] == client)
    rivals = [spans for (one, _), spans in sorted(held.items()) if one != client]
    both_work = max(spans[0][0] for spans in held.values()), min(spans[-1][1] for spans in rivals)
    share = common(first, second) / (both_work[1] - both_work[0])
    assert share > 0.4, (share, held)  # Half of the time is its share; without gangs it is nearly nothing.
