"""The protocol between nvsharectl and the scheduler on the operator's socket: one JSON object per line.

A request is one line. The answer is one line, Done or Failed or a result; `events --follow` continues with a line for
each step. Requests are tagged unions: an unknown one, or one with a wrong field, is answered with Failed."""

from typing import Literal

import msgspec

from nvshare.core.model import ModeName
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot
from nvshare.core.snapshots.snapshot import Snapshot

MAX_LINE = 1 << 16
"""A request is never longer; answers may be."""


class Request(msgspec.Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    """A request of an operator."""


class GetStatus(Request, frozen=True, tag="status"):
    pass


class SetQuantum(Request, frozen=True, tag="set-tq"):
    seconds: int
    gpu: str | None = None


class SetMode(Request, frozen=True, tag="set-mode"):
    mode: ModeName
    gpu: str | None = None


class SetScheduling(Request, frozen=True, tag="anti-thrash"):
    on: bool


class SetLimit(Request, frozen=True, tag="limit"):
    """`target` is a client's id, a pod (namespace/name, name or UID), a container or a run; None removes the limit."""

    target: str
    limit: int | None


class SetPolicy(Request, frozen=True, tag="set-policy"):
    policy: str


class SetWeight(Request, frozen=True, tag="set-weight"):
    """`target` as in SetLimit; None removes the operator's weight."""

    target: str
    weight: int | None


class SetPriority(Request, frozen=True, tag="set-priority"):
    """`target` as in SetLimit; None removes the operator's priority."""

    target: str
    priority: int | None


class SetCoreLimit(Request, frozen=True, tag="core-limit"):
    """`target` as in SetLimit; percent of each GPU's time; None removes the operator's limit."""

    target: str
    percent: int | None


class SetPause(Request, frozen=True, tag="pause"):
    """Of a target as in SetLimit, or of a GPU; `on` is false to resume."""

    on: bool
    target: str | None = None
    gpu: str | None = None


class YieldTurn(Request, frozen=True, tag="yield"):
    """A client, named as in GetStory, gives its locks back to those who wait; or all holders of a GPU do."""

    client: str | None = None
    gpu: str | None = None


class GetLimits(Request, frozen=True, tag="limits"):
    pass


class GetReport(Request, frozen=True, tag="report"):
    """What programs used in the last `since_s` seconds, by user, pod, name of the program, or GPU."""

    since_s: float
    by: Literal["user", "pod", "name", "gpu"]


class GetEvents(Request, frozen=True, tag="events"):
    follow: bool = False
    last: int = 100
    """How many past lines."""
    since_s: float | None = None
    """Only lines that are not older, in seconds."""
    client: str | None = None
    """Only lines about this client, named as in GetStory."""


class GetStory(Request, frozen=True, tag="story"):
    """`client` is an id or the beginning of one, a name, a pid, or a pod; `last` is how many lines, None: all."""

    client: str
    last: int | None = None


AnyGroupOrder = SetLimit | SetCoreLimit | SetWeight | SetPriority | SetPause
AnyOrder = SetQuantum | SetMode | SetPolicy | SetScheduling | YieldTurn | AnyGroupOrder
AnyRequest = GetStatus | GetLimits | GetReport | GetEvents | GetStory | AnyOrder


class Answer(msgspec.Struct, frozen=True, tag_field="answer"):
    """An answer of the scheduler."""


class Done(Answer, frozen=True, tag="done"):
    text: str = ""


class Failed(Answer, frozen=True, tag="failed"):
    reason: str


class Status(Answer, frozen=True, tag="status"):
    version: str
    started: float
    """Seconds since 1970, as `now` is."""
    now: float
    node: Snapshot
    host: str = ""
    """The name of the machine, on Kubernetes of the node."""


class Limits(Answer, frozen=True, tag="limits"):
    limits: tuple[LimitSnapshot, ...]


class ReportRow(msgspec.Struct, frozen=True):
    """`key` is a user ID, the label of a pod or run, the name of a program, or the UUID of a GPU."""

    key: str
    label: str
    held_seconds: float
    memory_byte_seconds: float
    waiting_seconds: float
    switches: int
    moved_in_bytes: int
    moved_out_bytes: int
    gpu_seconds: float = 0.0
    gpu_percent: float = 0.0
    """`gpu_seconds` of the time of the report: more than 100 if several GPUs were used."""


class Report(Answer, frozen=True, tag="report"):
    """The sums from `begin` to `end`, seconds since 1970; `left_out` rows held less than these."""

    begin: float
    end: float
    by: Literal["user", "pod", "name", "gpu"]
    rows: tuple[ReportRow, ...]
    left_out: int = 0


class StepLine(Answer, frozen=True, tag="step"):
    """One thing that happened, in words."""

    time: float
    text: str
    clients: tuple[str, ...] = ()
    """The clients of the step, at most as many as the scheduler names in a line."""
    more_clients: int = 0
    """How many it does not name."""


class Story(Answer, frozen=True, tag="story"):
    """Why a client is where it is: its state in a sentence, and the steps that led there."""

    summary: str
    steps: tuple[StepLine, ...]


AnyAnswer = Done | Failed | Status | Limits | Report | StepLine | Story

_REQUESTS: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_ANSWERS: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


def client_name(client: int) -> str:
    """How the id of a client is written everywhere."""
    return f"{client:04x}"


SHORT_UUID = 12
"""So many characters of a GPU's UUID are shown where there is no room for all."""


class AdminError(Exception):
    """The other side sent a line that is not a request, or not an answer."""


def encode(message: Request | Answer) -> bytes:
    """One line."""
    return msgspec.json.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    try:
        return _REQUESTS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdminError(f"invalid request: {error}") from None


def decode_answer(line: bytes) -> AnyAnswer:
    try:
        return _ANSWERS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdminError(f"unexpected answer of the scheduler ({error}); does it have another version?") from None
