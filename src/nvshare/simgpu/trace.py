"""Reads the traces of the simulated GPU.

Every process that uses the simulated driver with tracing on leaves one file of fixed-size records; the format is in
native/simgpu/driver/trace.h. This module reads them and answers the question of the end-to-end tests: did kernels of
two processes ever run on one card at the same time, and was that allowed?
"""

import enum
import mmap
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_MAGIC = 0x3145434152544D53
_VERSION = 1
_HEADER_BYTES = 4096
_UUID_SLOTS, _UUID_BYTES, _COMMAND_BYTES = 16, 48, 256
_HEADER = struct.Struct(f"<QIIQqQQdQQII{_UUID_SLOTS * _UUID_BYTES}s{_COMMAND_BYTES}s")
_RECORD = struct.Struct("<IIQQQQQIIII")
_NAME_OFFSET = 8


class TraceError(ValueError):
    """The file is not a trace, or one of a version this reader does not know."""


class Kind(enum.IntEnum):
    """What a record tells of; the numbers are those in the file."""

    KERNEL = 1
    COPY = 2
    MEMSET = 3
    ALLOC = 4
    FREE = 5
    PREFETCH = 6
    HOST = 7
    NOTE = 8
    NAME = 9
    CONTEXT = 10


class Copy(enum.IntEnum):
    """The `detail` of a COPY."""

    HTOD = 1
    DTOH = 2
    DTOD = 3
    HTOH = 4


class Memory(enum.IntEnum):
    """The `detail` of an ALLOC or FREE."""

    DEVICE = 1
    MANAGED = 2
    PINNED = 3
    POOL = 4
    PHYSICAL = 5
    ARRAY = 6


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a card. `end_ns` is None if the process died before the end, or has not reached it yet."""

    kind: Kind
    card: int
    begin_ns: int
    end_ns: int | None
    bytes: int
    address: int
    page_in_ns: int
    stream: int
    name: str
    detail: int
    waited_us: int

    @property
    def known_end_ns(self) -> int:
        """The end, or the begin of an unfinished record, which so counts for no time."""
        return self.begin_ns if self.end_ns is None else self.end_ns


@dataclass(frozen=True, slots=True)
class ProcessTrace:
    """The records of one process. `process` is its random id; the pid is the one in its own PID namespace."""

    process: str
    pid: int
    pid_namespace: int
    command: str
    started_ns: int
    scale: float
    uuids: tuple[str, ...]
    records: tuple[Record, ...]
    dropped: int

    def of_kind(self, *kinds: Kind) -> list[Record]:
        return [record for record in self.records if record.kind in kinds]

    def kernels(self, name: str | None = None) -> list[Record]:
        return [record for record in self.of_kind(Kind.KERNEL) if name is None or record.name == name]

    def not_simulated(self) -> list[str]:
        """Functions the program called and the simulator does not have."""
        return [record.name for record in self.of_kind(Kind.NOTE)]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two processes had the card at the same time, from `begin_ns` to `end_ns`."""

    uuid: str
    first: str
    second: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Trespass:
    """Work of a process that ran, at least partly, while the process did not hold the card's lock."""

    uuid: str
    process: str
    record: Record


def read_trace(path: Path) -> ProcessTrace:
    """One process' trace; of a live process, what it has written so far."""
    with path.open("rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:  # an empty file cannot be mapped
            raise TraceError(f"{path}: no header") from error
        with data:
            return _parse(path, data)


def read_traces(directory: Path) -> list[ProcessTrace]:
    """All traces below a simulator's directory (its `trace` folder, or that folder itself), oldest process first."""
    folder = directory / "trace" if (directory / "trace").is_dir() else directory
    return sorted((read_trace(path) for path in folder.glob("*.trace")), key=lambda trace: trace.started_ns)


def overlaps(traces: Iterable[ProcessTrace], kinds: Sequence[Kind] = (Kind.KERNEL,)) -> list[Overlap]:
    """Every pair of intervals of different processes that share time on one card. Touching ends do not count."""
    found: list[Overlap] = []
    for uuid, work in _work_by_card(traces, kinds).items():
        running: list[tuple[int, str]] = []
        for begin, end, process in sorted(work):
            running = [(until, other) for until, other in running if until > begin]
            found += [
                Overlap(uuid, other, process, begin, min(until, end))
                for until, other in running
                if other != process and min(until, end) > begin
            ]
            running.append((end, process))
    return found


def trespasses(
    traces: Iterable[ProcessTrace],
    holds: Mapping[tuple[str, str], Sequence[tuple[int, int]]],
    kinds: Sequence[Kind] = (Kind.KERNEL,),
) -> list[Trespass]:
    """Work outside its process' turns.

    `holds` gives, for (process, card UUID), the intervals in which the process had the lock: monotonic nanoseconds.
    """
    merged = {key: merge(intervals) for key, intervals in holds.items()}
    return [
        Trespass(trace.uuids[record.card], trace.process, record)
        for trace in traces
        for record in trace.of_kind(*kinds)
        if not any(
            begin <= record.begin_ns and record.known_end_ns <= end
            for begin, end in merged.get((trace.process, trace.uuids[record.card]), [])
        )
    ]


def merge(intervals: Iterable[tuple[int, int]], gap_ns: int = 0) -> list[tuple[int, int]]:
    """The same time as ordered intervals that do not meet; holes of up to `gap_ns` are closed."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1] + gap_ns:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _work_by_card(traces: Iterable[ProcessTrace], kinds: Sequence[Kind]) -> Mapping[str, list[tuple[int, int, str]]]:
    work: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for trace in traces:
        for record in trace.of_kind(*kinds):
            work[trace.uuids[record.card]].append((record.begin_ns, record.known_end_ns, trace.process))
    return work


def _parse(path: Path, data: mmap.mmap) -> ProcessTrace:
    if len(data) < _HEADER_BYTES:
        raise TraceError(f"{path}: no header")
    (
        magic,
        version,
        record_bytes,
        process,
        pid,
        namespace,
        started,
        scale,
        reserved,
        dropped,
        cards,
        _,
        uuids,
        command,
    ) = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise TraceError(f"{path}: not a trace")
    if (version, record_bytes) != (_VERSION, _RECORD.size):
        raise TraceError(f"{path}: trace version {version} with records of {record_bytes} bytes is not known")
    if cards > _UUID_SLOTS:
        raise TraceError(f"{path}: {cards} cards, more than there can be")
    count = min(reserved, (len(data) - _HEADER_BYTES) // _RECORD.size)
    body = data[_HEADER_BYTES : _HEADER_BYTES + count * _RECORD.size]
    return ProcessTrace(
        process=f"{process:016x}",
        pid=pid,
        pid_namespace=namespace,
        command=_text(command),
        started_ns=started,
        scale=scale,
        uuids=tuple(_text(uuids[i * _UUID_BYTES : (i + 1) * _UUID_BYTES]) for i in range(cards)),
        records=tuple(_records(body)),
        dropped=dropped,
    )


def _records(body: bytes) -> Iterator[Record]:
    names = _names(body)
    known = {int(kind) for kind in Kind if kind is not Kind.NAME}
    for kind, card, begin, end, size, address, page_in, stream, name, detail, waited in _RECORD.iter_unpack(body):
        if kind in known:  # 0 was being written when the process died
            text = names.get(name, "")
            yield Record(Kind(kind), card, begin, end or None, size, address, page_in, stream, text, detail, waited)


def _names(body: bytes) -> dict[int, str]:
    """Name records in file order; a long name is spread over several."""
    parts: defaultdict[int, bytes] = defaultdict(bytes)
    for offset in range(0, len(body), _RECORD.size):
        kind, name = struct.unpack_from("<II", body, offset)
        if kind == Kind.NAME:
            parts[name] += body[offset + _NAME_OFFSET : offset + _RECORD.size].rstrip(b"\0")
    return {name: text.decode(errors="replace") for name, text in parts.items()}


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")
