"""Runs a scenario: a text that says what happens and what follows.

    at 2s B asks g0 10Gi          one thing that happens on each line
    ----
    B waits for g0 at place 1     what the core does about all of them

Time moves as in a daemon: before anything happens `at` a time, every alarm due by then rings at its own time, and what
it does is shown behind that time. `late` in place of `at` moves the clock without ringing anything. What clients may
use of a card is told after `a daemon starts shows-capacities`. # begins a comment. All checks of the core are on."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from core.pods_and_claims import claim_prepared, options_of, pod_changed, size_or_none
from core.scenario_blocks import parse
from core.words import Teller, order_of, parse_number, parse_size, parse_time, pause_of, time, yield_of
from nvshare.core import events as ev
from nvshare.core.actions import GiveLock, TellCapacity
from nvshare.core.model import Claim, HostRoom, Memory, MemoryMode, ProcessMemory, QuantumRule, Settings
from nvshare.core.modes import MODES
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import SeatState, snapshot

NOTHING = "nothing happens"
_MAX_ALARMS = 1000
AUTO = QuantumRule(mode="auto")
"""The stories are about which clients fit and wait, and what they are told. Quanta that follow from memory alone keep
them readable."""


def run(path: Path) -> tuple[str, str]:
    """What the scenario says and what it should say."""
    text = path.read_text()
    blocks, rest = parse(text)
    stage = Stage()
    lines: list[str] = []
    for block in blocks:
        result = [line for command in block.commands for line in stage.play(command)]
        lines += [*block.before, *block.commands, "----", *(result or [NOTHING])]
    return text, "\n".join([*lines, *rest]) + "\n"


class Stage:
    """A node, and the clients of a story by name."""

    def __init__(self) -> None:
        self.now = 0
        self.ids: dict[str, int] = {}
        self.locks: dict[tuple[str, str], int] = {}
        self.asks = 0
        self.epoch = 1
        self._start(Settings(quantum=AUTO), {}, set())

    def play(self, line: str) -> list[str]:
        """Carry out one line and tell what follows."""
        told: list[str] = []
        if match := re.match(r"(at|late) (\S+) ?", line):
            then = parse_time(match[2])
            assert then >= self.now, f"time goes back: {line}"
            if match[1] == "at":
                told += self._ring_until(then)
            self.now = then
            line = line[match.end() :]
        if not line:
            return told
        for pattern, action in _COMMANDS:
            if match := re.fullmatch(pattern, line):
                return told + action(self, match)
        raise AssertionError(f"nobody understands: {line}")

    def _ring_until(self, then: int) -> list[str]:
        told: list[str] = []
        for _ in range(_MAX_ALARMS):
            deadline = self.node.next_deadline()
            if deadline is None or deadline > then:
                return told
            self.now = max(self.now, deadline)
            told += [f"{time(self.now)}: {line}" for line in self.handle(ev.AlarmRang())]
        raise AssertionError("the alarm never stops ringing")

    def handle(self, event: ev.Event) -> list[str]:
        actions = self.node.handle(self.now, event)
        for action in actions:
            if isinstance(action, GiveLock):
                self.locks[self._name_of(action.client), action.gpu] = action.lock
        hidden = () if self.shows_capacities else TellCapacity
        return [self.teller.tell(action) for action in actions if not isinstance(action, hidden)]

    def _name_of(self, client: int) -> str:
        return next(name for name, one in self.ids.items() if one == client)

    # What can happen.

    def _start(self, settings: Settings, options: dict[str, str], flags: set[str]) -> None:
        is_restarted = "restarted" in flags
        self.now = self.now if is_restarted else 0
        settles_at = self.now + settings.settle_ns if is_restarted else None
        self.epoch = int(options.get("epoch", self.epoch))
        expects_pods, self.shows_capacities = "expects-pods" in flags, "shows-capacities" in flags
        self.node = Node(settings, epoch=self.epoch, settles_at=settles_at, expects_pods=expects_pods, is_paranoid=True)
        self.ids.clear()
        self.teller = Teller(self._name_of, self.epoch)

    def restart(self, match: re.Match[str]) -> list[str]:
        options, flags = options_of(match["rest"])
        changes: dict[str, object] = {"quantum": AUTO}
        if "policy" in options:
            changes["policy"] = options["policy"]
        if "reserve" in options:
            changes["reserve_percent"] = int(options["reserve"])
        if "card-reserve" in options:
            changes["card_reserve"] = parse_size(options["card-reserve"])
        if "claims-may-be-raised" in flags:
            changes["is_claim_binding"] = False
        if "no-live-shrink" in flags:
            changes["live_shrink"] = False
        if "quantum" in options:
            changes["quantum"] = QuantumRule(mode="fixed", fixed_ns=parse_time(options["quantum"]))
        self._start(Settings(**changes), options, flags)  # type: ignore[arg-type]
        return []

    def join(self, match: re.Match[str]) -> list[str]:
        name, words = match["who"], match["rest"].split()
        self.ids[name] = max(self.ids.values(), default=0) + 1
        common: dict[str, str] = {}
        gpus: list[tuple[str, dict[str, str]]] = []
        flags = {"moves", "holds", "understands-start", "makes-room"} & set(words)
        for word in (word for word in words if word not in flags):
            key, is_option, value = word.partition("=")
            if is_option and key in ("in", "own", "priority", "weight", "pid", "account"):
                common[key] = value
            elif is_option or key == "unshared":
                gpus[-1][1][key] = value
            else:
                gpus.append((word, {}))
        group = common.get("in", f"run/{name}")
        event = ev.ClientRegistered(
            client=self.ids[name],
            group=group,
            label=group,
            name=name,
            claims=tuple(self._claim(name, gpu, options) for gpu, options in gpus),
            own_limit=parse_size(common.get("own", "0")),
            priority=int(common.get("priority", "0")),
            weight=int(common.get("weight", "100")),
            pid=int(common.get("pid", "0")),
            account=common.get("account", ""),
            moves_memory="moves" in flags,
            holds_memory="holds" in flags,
            understands_expected_start="understands-start" in flags,
            makes_room="makes-room" in flags,
        )
        return self.handle(event)

    def _claim(self, name: str, gpu: str, options: dict[str, str]) -> Claim:
        lock = parse_number(options["holding"], self.epoch) if "holding" in options else 0
        self.locks[name, gpu] = lock
        known = self.node.gpus.get(gpu)
        return Claim(
            gpu=gpu,
            size=parse_size(options["size"]) if "size" in options else (known.memory.size if known else 10 << 30),
            lock=lock,
            unshared="unshared" in options,
            memory=_memory(options.get("has", "0"), options),
            limit=parse_size(options.get("told", "0")),
            budget=parse_size(options.get("budget", "unlimited")),
        )

    def release(self, match: re.Match[str]) -> list[str]:
        who, gpu = match["who"], match["gpu"]
        lock = parse_number(match["lock"], self.epoch) if match["lock"] else self.locks[who, gpu]
        return self.handle(ev.LockReleased(self.ids[who], gpu, lock, bool(match["again"])))

    def ask_budget(self, match: re.Match[str]) -> list[str]:
        self.asks += 1
        return self.handle(ev.BudgetAsked(self.ids[match["who"]], match["gpu"], self.asks, parse_size(match["size"])))

    def show(self, match: re.Match[str]) -> list[str]:
        shown = snapshot(self.node, self.now)
        lines = []
        for gpu in shown.gpus:
            parts: dict[str, list[str]] = {state: [] for state in get_args(SeatState)}
            seats = [(seat.place, client.name, seat) for client in shown.clients for seat in client.seats]
            for _, name, seat in sorted((entry for entry in seats if entry[2].gpu == gpu.uuid), key=lambda e: e[:2]):
                parts[seat.state].append(name)
            told = [f"{', '.join(names)} {state}" for state, names in parts.items() if names]
            if gpu.quantum_left_ns is not None:
                told.append(f"{time(gpu.quantum_left_ns)} of {time(gpu.quantum_ns)} left")
            lines.append(f"{gpu.uuid}: {'; '.join(told) or 'nobody'}")
        return lines


def _memory(swappable: str, options: dict[str, str]) -> Memory:
    fixed, contexts = parse_size(options.get("fixed", "0")), int(options.get("contexts", "0"))
    return Memory(swappable=parse_size(swappable), unswappable=fixed, contexts=contexts)


def _with_memory(kind: Callable[[int, str, Memory], ev.Event]) -> Callable[[Stage, re.Match[str]], list[str]]:
    def play(stage: Stage, match: re.Match[str]) -> list[str]:
        memory = _memory(match["size"], options_of(match["rest"] or "")[0])
        return stage.handle(kind(stage.ids[match["who"]], match["gpu"], memory))

    return play


def _event(make: Callable[[Stage, re.Match[str]], ev.Event]) -> Callable[[Stage, re.Match[str]], list[str]]:
    return lambda stage, match: stage.handle(make(stage, match))


def _measured(stage: Stage, match: re.Match[str]) -> ev.Event:
    options, _ = options_of(match["rest"])
    gpu, foreign = match["gpu"], parse_size(options.pop("foreign", "0"))
    context = size_or_none(options, "context")
    options.pop("context", None)
    processes = []
    for name, used in options.items():
        seat = stage.node.gpus[gpu].turns.seats[stage.ids[name]]
        processes.append(ProcessMemory(seat.client, min(parse_size(used), seat.fixed), seat.fixed))
    return ev.MemoryMeasured(gpu, foreign, context, tuple(processes))


MEMORY_MODES: dict[str, MemoryMode] = {mode: mode for mode in get_args(MemoryMode)}
_WHO = r"(?P<who>\w+)"
_AT = r"(?P<gpu>\S+)"
_SIZE = r"(?P<size>\S+)"
_COMMANDS: list[tuple[str, Callable[[Stage, re.Match[str]], list[str]]]] = [
    (r"a daemon starts(?P<rest>.*)", Stage.restart),
    (rf"card {_AT} {_SIZE}", _event(lambda s, m: ev.GpuFound(m["gpu"], parse_size(m["size"])))),
    (rf"{_AT} is measured(?P<rest>.*)", _event(_measured)),
    (r"show", Stage.show),
    (rf"the host can take {_SIZE} of {_WHO} on {_AT}", _event(lambda s, m: ev.HostMemoryMeasured(
        (HostRoom(s.ids[m["who"]], m["gpu"], parse_size(m["size"])),)))),
    (r"the alarm rings", _event(lambda s, m: ev.AlarmRang())),
    (r"the daemon serves", _event(lambda s, m: ev.ServingBegan())),
    (r"pods are listed", _event(lambda s, m: ev.PodsListed())),
    (r"claim (?P<claim>\S+) ends", _event(lambda s, m: ev.ClaimEnded(f"uid-{m['claim']}"))),
    (r"claim (?P<claim>\S+)(?P<rest>.*)", _event(lambda s, m: claim_prepared(m["claim"], m["rest"]))),
    (r"process (?P<group>\S+) has ended", _event(lambda s, m: ev.ProcessEnded(m["group"]))),
    (r"pod (?P<pod>\S+) is gone", _event(lambda s, m: ev.PodRemoved(m["pod"]))),
    (r"pod (?P<pod>\S+)(?P<rest>.*)", _event(lambda s, m: pod_changed(m["pod"], m["rest"]))),
    (r"operator sets quantum (\S+)( on (\S+))?", _event(lambda s, m: ev.QuantumSet(parse_time(m[1]), m[3]))),
    (rf"operator sets mode (?P<mode>{'|'.join(MODES)})( on (?P<gpu>\S+))?",
     _event(lambda s, m: ev.ModeSet(m["mode"], m["gpu"]))),  # type: ignore[arg-type]
    (r"operator switches (?P<on>on|off)", _event(lambda s, m: ev.SchedulingSwitched(m["on"] == "on"))),
    (r"operator sets policy (?P<policy>\w+)", _event(lambda s, m: ev.PolicySet(m["policy"]))),
    (r"operator sets (weight|priority|core limit) of (\S+) to (\S+)", _event(lambda s, m: order_of(*m.groups()))),
    (r"operator (?P<what>pauses|resumes) (?P<target>\S+)", _event(lambda s, m: pause_of(m["what"], m["target"]))),
    (r"operator lets (?P<target>\S+) yield", _event(lambda s, m: yield_of(s.ids, m["target"]))),
    (r"operator limits (\S+) to (\S+)", _event(lambda s, m: ev.LimitSet(m[1], parse_size(m[2])))),
    (r"operator clears the limit of (?P<group>\S+)", _event(lambda s, m: ev.LimitSet(m["group"], None))),
    (rf"{_WHO} joins (?P<rest>.*)", Stage.join),
    (rf"{_WHO} falls silent", _event(lambda s, m: ev.ClientSilent(s.ids[m["who"]]))),
    (rf"{_WHO} is heard", _event(lambda s, m: ev.ClientHeard(s.ids[m["who"]]))),
    (rf"{_WHO} leaves", _event(lambda s, m: ev.ClientLeft(s.ids[m["who"]]))),
    (rf"{_WHO} asks {_AT} {_SIZE}( (?P<rest>.*))?", _with_memory(ev.LockRequested)),
    (rf"{_WHO} has {_SIZE} on {_AT}( (?P<rest>.*))?", _with_memory(ev.MemoryChanged)),
    (rf"{_WHO} releases {_AT}( (?P<lock>#\S+))?(?P<again>, again)?", Stage.release),
    (rf"{_WHO} is in memory mode (?P<mode>.+)",
     _event(lambda s, m: ev.MemoryModeReported(s.ids[m["who"]], MEMORY_MODES[m["mode"]]))),
    (rf"{_WHO} uses collectives", _event(lambda s, m: ev.CollectivesUsed(s.ids[m["who"]]))),
    (rf"{_WHO} has let one through on {_AT}", _event(lambda s, m: ev.LetFinished(s.ids[m["who"]], m["gpu"]))),
    (rf"{_WHO} is idle on {_AT}", _event(lambda s, m: ev.WorkFinished(s.ids[m["who"]], m["gpu"]))),
    (rf"{_WHO} is busy on {_AT}", _event(lambda s, m: ev.WorkResumed(s.ids[m["who"]], m["gpu"]))),
    (rf"{_WHO} moved {_SIZE} (?P<way>to|out of) {_AT} in (?P<time>\S+)",
     _event(lambda s, m: ev.MemoryMoved(s.ids[m["who"]], m["gpu"], m["way"] != "to", parse_size(m["size"]),
                                        parse_time(m["time"])))),
    (rf"{_WHO} has {_SIZE} left on the card {_AT}",
     _event(lambda s, m: ev.RoomMade(s.ids[m["who"]], m["gpu"], parse_size(m["size"])))),
    (rf"{_WHO} moves memory at {_AT}(?P<not> no more)?",
     _event(lambda s, m: ev.MoverReported(s.ids[m["who"]], m["gpu"], "switched off" if m["not"] else ""))),
    (rf"{_WHO} keeps {_SIZE} of {_AT} on the host",
     _event(lambda s, m: ev.MemoryHeld(s.ids[m["who"]], m["gpu"], parse_size(m["size"])))),
    (rf"{_WHO} uses {_SIZE} on {_AT}",
     _event(lambda s, m: ev.WorkingSetReported(s.ids[m["who"]], m["gpu"],
                                               None if m["size"] == "unknown" else parse_size(m["size"])))),
    (rf"{_WHO} is (?P<factor>\d+) times slower on {_AT}",
     _event(lambda s, m: ev.WorkSlowed(s.ids[m["who"]], m["gpu"], int(m["factor"])))),
    (rf"{_WHO} needs {_SIZE} on {_AT}", Stage.ask_budget),
    (rf"{_WHO} returns {_AT} serial (?P<serial>\d+), has {_SIZE}, uses (?P<used>\S+)",
     _event(lambda s, m: ev.BudgetReturned(s.ids[m["who"]], m["gpu"], int(m["serial"]), parse_size(m["size"]),
                                           parse_size(m["used"])))),
]  # fmt: skip
