"""What the caller of the core has to do. The last group is for observers; nothing is sent for it."""

from typing import Literal

from nvshare.core.limits.group_order import Order
from nvshare.record import Record

DropCause = Literal["quantum", "growth", "idle", "claim", "silent", "thrash", "operator", "priority", "share"]
TurnEnd = Literal["released", "revoked", "left", "off"]


class Action(Record, frozen=True):
    """Something to do."""


# To clients.


class AcceptClient(Action, frozen=True):
    """Answer a registration."""

    client: int
    scheduling: bool


class SwitchScheduling(Action, frozen=True):
    client: int
    on: bool


class GiveLock(Action, frozen=True):
    """`contended`: see TellContended."""

    client: int
    gpu: str
    lock: int
    contended: bool
    waited_ns: int = 0


class DropLock(Action, frozen=True):
    """Cause `claim`: the client registered with a lock that it cannot have now. `silent`: it counts as hung.
    `thrash`: the running clients slow each other down (memory.thrashing). `share`: it has used enough of the GPU's time
    (compute.compute_shares)."""

    client: int
    gpu: str
    lock: int
    cause: DropCause


class QueueClient(Action, frozen=True):
    """Tell a client that it waits, and its place in the queue."""

    client: int
    gpu: str
    place: int


class AnnounceRoom(Action, frozen=True):
    """Tell a waiting client that there is room for it; its lock follows."""

    client: int
    gpu: str


class TellContended(Action, frozen=True):
    """Tell a holder whether the GPU is contended: whether it has to report its pauses (WorkFinished, WorkResumed).

    A GPU is contended while a client waits, (adaptive, balanced) while not all clients fit together, or while weights
    decide which clients run side by side."""

    client: int
    gpu: str
    contended: bool


class ReportLongWait(Action, frozen=True):
    """Tell a client and the observers that it has waited long, and who holds the GPU. Place 0: it is in no queue,
    because its turn would evict memory of `holder` that the host cannot take. `is_paused`, `is_held_back`: it is in no
    queue because it is paused, or has used its share of GPU time (compute.compute_shares); its place would be behind
    the last."""

    client: int
    gpu: str
    place: int
    waited_ns: int
    holders: int
    holder: int
    held_ns: int
    is_paused: bool = False
    is_held_back: bool = False


class TellExpectedStart(Action, frozen=True):
    """Tell a client that has waited long by when it will probably start. ReportLongWait follows."""

    client: int
    gpu: str
    within_ns: int


class UpdateLimit(Action, frozen=True):
    client: int
    gpu: str
    limit: int


class GiveBudget(Action, frozen=True):
    """The client may use `budget` bytes in all. `ask` is the number of the question that this answers, 0 if none;
    `others` is what the other processes of the group use. With serial 0 the budget does not change."""

    client: int
    gpu: str
    serial: int
    ask: int
    budget: int
    others: int


class RecallBudget(Action, frozen=True):
    """Ask a client to return what it does not use of its budget beyond `keep` bytes."""

    client: int
    gpu: str
    serial: int
    keep: int


class LetOne(Action, frozen=True):
    """The client has no lock, but work of its gang waits for its work: it may submit once. LetFinished answers."""

    client: int
    gpu: str


class MoveIn(Action, frozen=True):
    """The client has a lock, and some of its memory may be on the host: it should move in at most `most` bytes."""

    client: int
    gpu: str
    lock: int
    most: int


class MoveOut(Action, frozen=True):
    """When the client has released this lock, it should move `most` bytes to the host: others need the space. Lock 0:
    the client has no lock, and should move the memory now. RoomMade answers, if the client makes room
    (ClientRegistered)."""

    client: int
    gpu: str
    lock: int
    most: int


class KeepOnHost(Action, frozen=True):
    """The client should keep `keep` bytes of its memory on the host, because its group uses more than its limit."""

    client: int
    gpu: str
    keep: int


class TellCapacity(Action, frozen=True):
    """The client may use `room` bytes of the card in all, and each of its contexts takes `context_bytes` of them."""

    client: int
    gpu: str
    room: int
    context_bytes: int


# For observers; nothing is sent.


class EndTurn(Action, frozen=True):
    """A lock is no longer held. `revoked`: its holder did not release it within the grace time."""

    client: int
    gpu: str
    lock: int
    held_ns: int
    end: TurnEnd


class ReportBlocked(Action, frozen=True):
    """A client waits: its turn would evict protected memory. Of the others `holder` has most: `protected` bytes."""

    client: int
    gpu: str
    holder: int
    protected: int


class ReportLimit(Action, frozen=True):
    """A group's limit changed."""

    group: str
    label: str
    old: int
    new: int


class ReportForgotten(Action, frozen=True):
    """What the operator ordered for a group is forgotten, and no longer kept for the next daemon. `is_expected`:
    clients of it may still come, but too many such groups are kept (core.limits.groups)."""

    group: str
    label: str
    limit: int | None
    order: Order
    is_expected: bool


class Refuse(Action, frozen=True):
    """An operator's command is refused; nothing changed."""

    reason: str


class NoteOrder(Action, frozen=True):
    """An order of the operator concerns this client: its story tells of it."""

    client: int
