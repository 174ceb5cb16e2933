"""What is to be done. The core says it, somebody else does it; the last group is for those who watch."""

from typing import Literal

from nvshare.record import Record

DropCause = Literal["quantum", "growth", "idle"]
TurnEnd = Literal["released", "revoked", "left", "off"]


class Action(Record, frozen=True):
    """Something to do."""


# To clients.


class AdmitClient(Action, frozen=True):
    """Answer a registration."""

    client: int
    scheduling: bool


class SwitchScheduling(Action, frozen=True):
    client: int
    on: bool


class GiveLock(Action, frozen=True):
    client: int
    gpu: str
    lock: int
    contended: bool
    waited_ns: int = 0


class DropLock(Action, frozen=True):
    client: int
    gpu: str
    lock: int
    cause: DropCause


class QueueClient(Action, frozen=True):
    """Tell a client that it waits, and at which place."""

    client: int
    gpu: str
    place: int


class AnnounceRoom(Action, frozen=True):
    """Tell a waiting client that its lock comes."""

    client: int
    gpu: str


class TellContended(Action, frozen=True):
    client: int
    gpu: str
    contended: bool


class ReportLongWait(Action, frozen=True):
    """Tell a client, and whoever watches, that it has waited long, and for whom."""

    client: int
    gpu: str
    place: int
    waited_ns: int
    holders: int
    holder: int
    held_ns: int


class UpdateLimit(Action, frozen=True):
    client: int
    gpu: str
    limit: int


class GiveBudget(Action, frozen=True):
    client: int
    gpu: str
    serial: int
    ask: int
    budget: int
    others: int


class RecallBudget(Action, frozen=True):
    client: int
    gpu: str
    serial: int
    keep: int


# For those who watch; nothing is sent.


class EndTurn(Action, frozen=True):
    """A lock is no longer held. `revoked`: its holder never answered."""

    client: int
    gpu: str
    lock: int
    held_ns: int
    end: TurnEnd


class ReportLimit(Action, frozen=True):
    """A group's limit changed."""

    group: str
    label: str
    old: int
    new: int


class Refuse(Action, frozen=True):
    """An operator's wish cannot be met; nothing changed."""

    reason: str
