"""What nvsharectl and the scheduler say to each other over the operator's socket: one JSON object a line.

A request is one line. The answer is one line, Done or Failed or a result; `events --follow` goes on with one line for
each step. Requests are tagged unions: an unknown one, or one with a wrong field, is answered by Failed."""

from typing import Literal

import msgspec

from nvshare.core.snapshot import Snapshot

MAX_LINE = 1 << 16
"""A request is never longer; answers may be."""


class Request(msgspec.Struct, frozen=True, tag_field="op", forbid_unknown_fields=True):
    """What an operator wants."""


class GetStatus(Request, frozen=True, tag="status"):
    pass


class SetQuantum(Request, frozen=True, tag="set-tq"):
    seconds: int
    gpu: str | None = None


class SetMode(Request, frozen=True, tag="set-mode"):
    mode: Literal["auto", "fixed", "adaptive"]
    gpu: str | None = None


class SetScheduling(Request, frozen=True, tag="anti-thrash"):
    on: bool


class SetLimit(Request, frozen=True, tag="limit"):
    """`target` is a client's id, a pod (namespace/name, name or UID), a container or a run; None clears."""

    target: str
    limit: int | None


class GetEvents(Request, frozen=True, tag="events"):
    follow: bool = False
    last: int = 100


class GetStory(Request, frozen=True, tag="story"):
    client: str


AnyRequest = GetStatus | SetQuantum | SetMode | SetScheduling | SetLimit | GetEvents | GetStory


class Answer(msgspec.Struct, frozen=True, tag_field="answer"):
    """What the scheduler says to it."""


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


class StepLine(Answer, frozen=True, tag="step"):
    """One thing that happened, in words."""

    time: float
    text: str
    clients: tuple[str, ...] = ()


class Story(Answer, frozen=True, tag="story"):
    """Why a client is where it is: its state in a sentence, and the steps that led there."""

    summary: str
    steps: tuple[StepLine, ...]


AnyAnswer = Done | Failed | Status | StepLine | Story

_REQUESTS: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_ANSWERS: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


class AdminError(Exception):
    """The other side sent something that is no request, or no answer."""


def encode(message: Request | Answer) -> bytes:
    """One line."""
    return msgspec.json.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    try:
        return _REQUESTS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdminError(f"not understood: {error}") from None


def decode_answer(line: bytes) -> AnyAnswer:
    try:
        return _ANSWERS.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdminError(f"the scheduler's answer is not understood ({error}); is it of another version?") from None
