"""What fuzzing starts from: valid input for every target, and the words that it is made of.

python -m fuzz.seeds DIRECTORY      writes, for each target, a corpus and a dictionary as libFuzzer reads them
"""

import json
import sys
from pathlib import Path

from nvshare import admin
from nvshare.config import OPTIONS
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.journal import ACTIONS, EVENTS, DaemonStart, Step, line_of
from nvshare.kube import annotations
from nvshare.wire.messages import FROM_SCHEDULER, PROTOCOL_VERSION

_TESTS = Path(__file__).parents[1]


def _named(path: Path) -> dict[str, bytes]:
    """Lines of a name and hexadecimal digits."""
    lines = (line.partition(" ") for line in path.read_text().splitlines() if line[:1].isalpha())
    return {name: bytes.fromhex(digits) for name, _, digits in lines}


FRAMES = _named(_TESTS / "wire" / "golden" / f"v{PROTOCOL_VERSION}.txt")
"""By name."""
STORIES = _named(_TESTS / "fuzz" / "stories.txt")
"""By name; for the library's helper thread."""


def _requests() -> list[bytes]:
    requests = (
        admin.GetStatus(),
        admin.SetQuantum(seconds=30, gpu="GPU-1"),
        admin.SetMode(mode="adaptive", gpu=None),
        admin.SetScheduling(on=False),
        admin.SetLimit(target="a/b", limit=1 << 33),
        admin.SetLimit(target="7", limit=None),
        admin.GetEvents(follow=True, last=5),
        admin.GetStory(client="7"),
    )
    return [admin.encode(request) for request in requests]


def _answers() -> list[bytes]:
    steps = (admin.StepLine(1.5, "a client left", ("0001",)),)
    status = admin.Status(version="1", started=1.0, now=2.0, node=snapshot(_node()[0], 70 * SECOND))
    answers = (admin.Done("done"), admin.Failed("no"), *steps, admin.Story("it waits", steps), status)
    return [admin.encode(answer) for answer in answers]


def _pods() -> list[bytes]:
    def pod(container: object, **settings: str) -> bytes:
        metadata = {"name": "p", "namespace": "n", "uid": "u", "annotations": settings}
        return json.dumps({"metadata": metadata, "spec": {"containers": [container]}}).encode()

    settings = {annotations.MEMORY_LIMIT: "8Gi", annotations.PRIORITY: "-3", annotations.WEIGHT: "200"}
    env = [{"name": annotations.SPEC_LIMIT, "value": "4Gi"}]
    mirror = {"kubernetes.io/config.mirror": "0123456789abcdef" * 2}
    return [
        pod({"env": env, "resources": {"limits": {annotations.RESOURCE: "1"}}}, **settings),
        pod({"env": [*env, {"name": annotations.SPEC_LIMIT, "value": "x"}]}, **mirror, **{annotations.WEIGHT: "0"}),
        b'{"metadata": {"name": "p", "annotations": null}, "spec": {"containers": null, "initContainers": [{}]}}',
    ]


def _node() -> tuple[Node, list[Step]]:
    """Two clients that do not fit beside each other: one holds, one waits, one leaves; and all the steps."""
    memory = Memory(10 * GIB, 0, 1)
    claims = (Claim("GPU-1", 16 * GIB, memory=memory),)
    joined = [ev.ClientRegistered(client, f"g{client}", "", "train", claims, pid=client) for client in (1, 2)]
    asked = [ev.LockRequested(client, "GPU-1", memory) for client in (1, 2)]
    limits = [ev.LimitSet("g1", 12 * GIB), ev.BudgetAsked(1, "GPU-1", 1, 11 * GIB)]
    happened = [*joined, *asked, *limits, ev.WorkFinished(1, "GPU-1"), ev.AlarmRang(), ev.ClientLeft(1), ev.AlarmRang()]
    node, steps = Node(Settings(), epoch=7, settles_at=None, expects_pods=False), []
    for number, event in enumerate(happened):
        now = number * 7 * SECOND
        steps.append(Step(now, float(number), event, tuple(node.handle(now, event))))
    return node, steps


def _journal() -> bytes:
    start = DaemonStart(0, Settings(), 7, None, False)
    entries: list[DaemonStart | Step] = [start, *_node()[1]]
    return b"".join(map(line_of, entries))


def _quantities() -> list[bytes]:
    rows = (_TESTS / "quantity" / "quantities.txt").read_text(encoding="utf-8").splitlines()
    return [row.partition("\t")[0].encode() for row in rows[:100]]


def _stories() -> list[bytes]:
    """Those that are written down, and every frame that a scheduler may or may not send, to a helper that waits."""
    numbers = {message.number for message in FROM_SCHEDULER}
    answered, waits, step = _said(FRAMES["sched_on"]) + b"\x00", b"\x27\x04\x00", b"\x00\x90"
    frames = sorted(FRAMES.values(), key=lambda frame: frame[2] not in numbers)
    return [*STORIES.values(), *(answered + waits + _said(frame) + step for frame in frames)]


def _said(frame: bytes) -> bytes:
    """The act by which the scheduler says these bytes."""
    pieces = (frame[at : at + 255] for at in range(0, len(frame), 255))
    return b"".join(b"\x01" + bytes([len(piece)]) + piece for piece in pieces)


SEEDS: dict[str, list[bytes]] = {
    "decoder": list(FRAMES.values()),
    "control": [*_requests(), *_answers()],
    "quantity": _quantities(),
    "pod": _pods(),
    "config_file": [
        "\n".join(f'{option.name} = "{option.default}"' for option in OPTIONS).encode(),
        b"grace_seconds = 5.5\njournal_steps = 100\ndebug = true\nswitch_time_fixed = 0x10 # seconds\n",
    ],
    "journal": [_journal()],
    "frames": _stories(),
}
"""By target; `frames` is the one in C."""

_JSON = {b"null", b"true", b"false", b"-1", b"0", b"1e400", b"18446744073709551616", b'""', b"[]", b"{}", b"\\ud800"}
WORDS: dict[str, set[bytes]] = {
    "decoder": {frame[:4] for frame in FRAMES.values()} | {b"\xff" * 8},
    "control": _JSON | {b"status", b"set-tq", b"set-mode", b"anti-thrash", b"limit", b"events", b"story", b"auto"},
    "quantity": {*map(str.encode, "numkMGTPE.+-")} | {b"Ki", b"Mi", b"Gi", b"Ei", b"e+", b"E-", b"000"},
    "pod": _JSON | {name.encode() for name in (annotations.MEMORY_LIMIT, annotations.PRIORITY, annotations.WEIGHT)},
    "config_file": {option.name.encode() for option in OPTIONS} | {b' = "', b"'''", b"[[", b"{", b"0x", b"nan"},
    "journal": _JSON | {name.encode() for name in (*EVENTS, *ACTIONS)},
    "frames": {_said(frame) for frame in FRAMES.values() if len(frame) < 128},
}


def write(directory: Path) -> None:
    for name, seeds in SEEDS.items():
        (directory / name).mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds):
            (directory / name / f"seed-{number}").write_bytes(seed)
        quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in sorted(WORDS[name]))
        (directory / f"{name}.dict").write_text("".join(f'"{word}"\n' for word in quoted))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
