"""What programs read: `nvsharectl status -o json`, `nvshare ps -o json`, /api/v1/status and /api/v1/events. Pure.

    {"schema_version": 1, "version", "host", "started", "time", "scheduling", "settling", "policy",
     "gpus": [{"uuid", "index", "name", ..., "clients": [{"id", "name", "state", ...}]}],
     "claims": [{"label", "uid", "gpu", "limit_bytes", "used_bytes", "pods"}]}

The values are those of core.snapshots.snapshot under names with units: sizes end in `_bytes`, durations in `_seconds`,
times are seconds since 1970, ids are strings. Six names are older than this rule: memory_allocated, is_running,
last_scheduled_time, total_memory, available_memory, running_memory_usage. A new field does not change the version; a
field that is removed, or that means something else, does. `nvsharectl schema` prints the JSON Schema."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from nvshare.admin import Report, ReportRow, Status, StepLine, client_name
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.events import Event
from nvshare.core.model import SECOND
from nvshare.core.snapshots.claim_snapshot import ClaimSnapshot
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot
from nvshare.record import Record

SCHEMA_VERSION = 1
SIZES = frozenset(
    {
        "budget",
        "foreign_memory",
        "host_shortfall",
        "limit",
        "need",
        "on_host",
        "safe_limit",
        "swappable",
        "unswappable",
        "unswappable_memory",
        "used",
        "working_set",
    }
)
OWN_RULES = frozenset({"id", "last_scheduled_ns", "reserved_for", "seats"})
"""Fields of snapshots that are not only renamed."""
STEPS_FIELDS = ("schema_version", "events", "changes", "lost", "is_past")
REPORT_HEAD = ("schema_version", "begin", "end", "by", "left_out")
HEAD = ("schema_version", "version", "host", "started", "time", "scheduling", "settling", "policy")


def status_document(status: Status) -> dict[str, Any]:
    """The whole state."""
    node = status.node
    had = Together(node.clients)
    gpus = [gpu_document(gpu, node.clients, status.now, had) for gpu in node.gpus]
    return {**head_of(status), "gpus": gpus, "claims": [claim_document(claim) for claim in node.claims]}


def head_of(status: Status) -> dict[str, Any]:
    """The document without its GPUs and claims."""
    node = status.node
    values = (status.version, status.host, status.started, status.now, node.scheduling, node.settling, node.policy)
    return dict(zip(HEAD, (SCHEMA_VERSION, *values), strict=True))


def gpu_document(gpu: GpuSnapshot, clients: Iterable[ClientSnapshot], now: float, had: Together) -> dict[str, Any]:
    """A GPU with its clients; `now` is the time of the status, `had` is of all clients."""
    made = _renamed(gpu)
    made["reserved_for"] = None if gpu.reserved_for is None else client_name(gpu.reserved_for)
    seats = [(client, seat) for client in clients for seat in client.seats if seat.gpu == gpu.uuid]
    return {**made, "clients": [client_document(client, seat, now, had) for client, seat in seats]}


def client_document(client: ClientSnapshot, seat: SeatSnapshot, now: float, had: Together) -> dict[str, Any]:
    """A client at one GPU. `group_gpu_percent`: what its pod, container or run had, so the same for all its clients;
    `user_gpu_percent`: what all clients of its user had."""
    ago = seat.last_scheduled_ns
    last_scheduled = None if ago is None else now - ago / SECOND
    who = {"id": client_name(client.id), **_renamed(client)}
    together = {"group_gpu_percent": had.group(client, seat), "user_gpu_percent": had.user(client, seat)}
    return {**who, **_renamed(seat), "last_scheduled_time": last_scheduled, **together}


def claim_document(claim: ClaimSnapshot) -> dict[str, Any]:
    """A claim on one GPU."""
    return _renamed(claim)


def limit_document(limit: LimitSnapshot) -> dict[str, Any]:
    """A limit in `nvsharectl limits -o json`."""
    return _renamed(limit)


def report_document(report: Report) -> dict[str, Any]:
    """`nvsharectl report -o json`."""
    rows = [msgspec.to_builtins(row) for row in report.rows]
    head = SCHEMA_VERSION, report.begin, report.end, report.by, report.left_out
    return {**dict(zip(REPORT_HEAD, head, strict=True)), "rows": rows}


def event_document(line: StepLine) -> dict[str, Any]:
    """A line of `nvsharectl events -o json`."""
    return {"time": line.time, "text": line.text, "clients": list(line.clients), "more_clients": line.more_clients}


class Change(Record, frozen=True):
    """What a step changed for a client, for a program that draws it; None: it does not concern this kind of change."""

    time: float
    change: Literal["registered", "left", "waiting", "running", "idle", "busy", "dropping", "ended", "moved", "limit"]
    client: str | None = None
    gpu: str | None = None
    place: int | None = None
    cause: str | None = None
    """Why a lock must be dropped, or how a turn ended."""
    name: str | None = None
    label: str | None = None
    group: str | None = None
    old_limit_bytes: int | None = None
    new_limit_bytes: int | None = None
    to_host: bool | None = None
    moved_bytes: int | None = None
    took_seconds: float | None = None


_CHANGES: dict[type[Event | Action], Callable[[float, Any], Change]] = {
    ev.ClientRegistered: lambda time, it: Change(
        time, "registered", client_name(it.client), name=it.name, label=it.label, group=it.group
    ),
    ev.ClientLeft: lambda time, it: Change(time, "left", client_name(it.client)),
    ev.MemoryMoved: lambda time, it: Change(
        time,
        "moved",
        client_name(it.client),
        it.gpu,
        to_host=it.to_host,
        moved_bytes=it.moved,
        took_seconds=it.took_ns / SECOND,
    ),
    ev.WorkFinished: lambda time, it: Change(time, "idle", client_name(it.client), it.gpu),
    ev.WorkResumed: lambda time, it: Change(time, "busy", client_name(it.client), it.gpu),
    ac.QueueClient: lambda time, it: Change(time, "waiting", client_name(it.client), it.gpu, it.place),
    ac.GiveLock: lambda time, it: Change(time, "running", client_name(it.client), it.gpu),
    ac.DropLock: lambda time, it: Change(time, "dropping", client_name(it.client), it.gpu, cause=it.cause),
    ac.EndTurn: lambda time, it: Change(time, "ended", client_name(it.client), it.gpu, cause=it.end),
    ac.ReportLimit: lambda time, it: Change(
        time, "limit", label=it.label, group=it.group, old_limit_bytes=it.old, new_limit_bytes=it.new
    ),
}


def changes_of(time: float, event: Event, actions: Iterable[Action]) -> list[Change]:
    """Of one step; a client that leaves does so after all else."""
    parts: list[Event | Action] = [*actions, event] if isinstance(event, ev.ClientLeft) else [event, *actions]
    return [_CHANGES[type(part)](time, part) for part in parts if type(part) in _CHANGES]


class Steps(Record, frozen=True):
    """The message `steps` of /api/v1/events."""

    events: list[StepLine]
    changes: list[Change]
    lost: int = 0
    """So many steps before these are not told."""
    is_past: bool = False
    """The first message: what happened before the connection."""


def steps_document(steps: Steps) -> dict[str, Any]:
    """The message, to be encoded."""
    events = [event_document(line) for line in steps.events]
    values = (SCHEMA_VERSION, events, steps.changes, steps.lost, steps.is_past)
    return dict(zip(STEPS_FIELDS, values, strict=True))


def public_name(field: str) -> str:
    """The name of a field of a snapshot in the document."""
    if field.endswith("_ns"):
        return field.removesuffix("_ns") + "_seconds"
    return f"{field}_bytes" if field in SIZES else field


def _renamed(record: msgspec.Struct) -> dict[str, Any]:
    return _public(msgspec.to_builtins(record))


def _public(values: dict[str, Any]) -> dict[str, Any]:
    return {public_name(name): _value(name, value) for name, value in values.items() if name not in OWN_RULES}


def _value(field: str, value: Any) -> Any:
    if isinstance(value, dict):
        return _public(value)
    return value / SECOND if field.endswith("_ns") and value is not None else value


# The schema.


def schema() -> dict[str, Any]:
    """The JSON Schema of the status; limits, events, reports and the message `steps` are definitions in it."""
    text, number, flag = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
    kinds = (text, text, number, number, flag, flag, text)
    head = dict(zip(HEAD, ({"const": SCHEMA_VERSION}, *kinds), strict=True))
    own = {"last_scheduled_time": _or_null(number), "group_gpu_percent": number, "user_gpu_percent": _or_null(number)}
    client = _object({"id": text, **_fields(ClientSnapshot), **_fields(SeatSnapshot), **own})
    gpu = _object({**_fields(GpuSnapshot), "reserved_for": _or_null(text), "clients": _list_of("client")})
    steps = ({"const": SCHEMA_VERSION}, _list_of("event"), _list_of("change"), {"type": "integer"}, flag)
    report = dict(zip(REPORT_HEAD, ({"const": SCHEMA_VERSION}, number, number, text, {"type": "integer"}), strict=True))
    event = _object({"time": number, "text": text, "clients": {"type": "array", "items": text}, "more_clients": number})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nvsharectl status -o json",
        **_object({**head, "gpus": _list_of("gpu"), "claims": _list_of("claim")}),
        "$defs": {
            "gpu": gpu,
            "client": client,
            "claim": _object(_fields(ClaimSnapshot)),
            "limit": _object(_fields(LimitSnapshot)),
            "event": event,
            "steps": _object(dict(zip(STEPS_FIELDS, steps, strict=True))),
            "change": _object(_fields(Change)),
            "report": _object({**report, "rows": _list_of("use")}),
            "use": _object(_fields(ReportRow)),
        },
    }


def _fields(kind: type[msgspec.Struct]) -> dict[str, Any]:
    _, definitions = msgspec.json.schema_components([kind])
    return _properties(kind.__name__, definitions)


def _properties(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = definitions[name]["properties"]
    return {
        public_name(field): _rule(field, value, definitions)
        for field, value in fields.items()
        if field not in OWN_RULES
    }


def _rule(field: str, value: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The rule of a field: a record inside a record in full, durations as numbers, and no defaults."""
    reference = value.get("$ref") or next((part["$ref"] for part in value.get("allOf", ()) if "$ref" in part), None)
    if reference is not None:
        return _object(_properties(reference.rpartition("/")[2], definitions))
    if field.endswith("_ns"):
        return _or_null({"type": "number"}) if "anyOf" in value else {"type": "number"}
    return {name: part for name, part in value.items() if name != "default"}


def _or_null(value: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [value, {"type": "null"}]}


def _list_of(name: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}
