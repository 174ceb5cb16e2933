"""The trace reader, on files written here by the layout's own rules, and the questions asked of traces."""

import contextlib
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.simgpu.timeline import timeline
from nvshare.simgpu.trace import Kind, TraceError, Trespass, merge, overlaps, read_trace, read_traces, trespasses

CARD = "GPU-00000000-0000-0000-0000-00000000000a"
OTHER_CARD = "GPU-00000000-0000-0000-0000-00000000000b"


def record(
    kind: int, begin: int, end: int, *, card: int = 0, name: int = 0, bytes_: int = 0, page_in: int = 0
) -> bytes:
    return struct.pack("<IIQQQQQIIII", kind, card, begin, end, bytes_, 0x7000, page_in, 3, name, 2, 0)


def name_record(number: int, text: bytes) -> bytes:
    return struct.pack("<II56s", Kind.NAME, number, text)


def header(process: int, count: int, *, magic: int = 0x3145434152544D53, version: int = 1, scale: float = 1.0) -> bytes:
    uuids = b"".join(uuid.encode().ljust(48, b"\0") for uuid in (CARD, OTHER_CARD)).ljust(16 * 48, b"\0")
    fields = struct.pack("<QIIQqQQdQQII", magic, version, 64, process, 77, 4026531836, process, scale, count, 5, 2, 0)
    return (fields + uuids + b"train.py".ljust(256, b"\0")).ljust(4096, b"\0")


def write(folder: Path, process: int, records: list[bytes], *, reserved: int | None = None, **kw: float) -> Path:
    path = folder / f"{process:016x}.trace"
    count = len(records) if reserved is None else reserved
    path.write_bytes(header(process, count, scale=kw.get("scale", 1.0)) + b"".join(records) + bytes(640))
    return path


def test_a_trace_gives_back_what_was_written(tmp_path: Path) -> None:
    path = write(
        tmp_path, 0xABC, [name_record(1, b"matmul"), record(Kind.KERNEL, 100, 200, name=1, bytes_=9, page_in=40)]
    )
    trace = read_trace(path)
    assert (trace.process, trace.pid, trace.command, trace.dropped) == ("0000000000000abc", 77, "train.py", 5)
    assert trace.uuids == (CARD, OTHER_CARD)
    (kernel,) = trace.kernels("matmul")
    assert (kernel.begin_ns, kernel.end_ns, kernel.bytes, kernel.page_in_ns, kernel.stream) == (100, 200, 9, 40, 3)
    assert trace.kernels("other") == []


def test_a_long_name_is_put_together_from_its_parts(tmp_path: Path) -> None:
    long = b"_Z" + b"x" * 100
    parts = [name_record(4, long[:56]), name_record(5, b"between"), name_record(4, long[56:])]
    trace = read_trace(write(tmp_path, 1, [*parts, record(Kind.NOTE, 1, 1, name=4)]))
    assert trace.not_simulated() == [long.decode()]


def test_a_record_cut_off_by_a_kill_is_skipped_and_an_unfinished_one_has_no_end(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, 1, [record(0, 0, 0), record(Kind.KERNEL, 50, 0)]))
    assert [(r.begin_ns, r.end_ns, r.known_end_ns) for r in trace.records] == [(50, None, 50)]


def test_records_beyond_those_handed_out_are_not_read(tmp_path: Path) -> None:
    records = [record(Kind.KERNEL, 1, 2), record(Kind.KERNEL, 3, 4)]
    assert len(read_trace(write(tmp_path, 1, records, reserved=1)).records) == 1
    assert len(read_trace(write(tmp_path, 2, records, reserved=1000)).records) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no header"),
        (b"x" * 100, "no header"),
        (header(1, 0, magic=7), "not a trace"),
        (header(1, 0, version=9), "version 9"),
    ],
)
def test_what_is_not_a_trace_is_named_as_such(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.trace"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        read_trace(path)


@given(st.binary(max_size=300), st.integers(0, 4700))
def test_any_bytes_give_a_trace_or_are_named_as_none(noise: bytes, at: int) -> None:
    whole = header(1, 4) + record(Kind.KERNEL, 1, 2) * 4
    damaged = whole[:at] + noise + whole[at + len(noise) :]
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        file.write(damaged[: len(whole)])
        file.flush()
        with contextlib.suppress(TraceError):
            assert len(read_trace(Path(file.name)).records) <= 4


def test_traces_of_a_directory_come_oldest_process_first(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    write(folder, 9, [])
    write(folder, 2, [])
    assert [trace.process[-1] for trace in read_traces(tmp_path)] == ["2", "9"]
    assert [trace.process[-1] for trace in read_traces(folder)] == ["2", "9"]


def test_kernels_of_two_processes_at_once_are_an_overlap_and_those_of_one_are_not(tmp_path: Path) -> None:
    write(tmp_path, 1, [record(Kind.KERNEL, 0, 100), record(Kind.KERNEL, 50, 150)])
    write(tmp_path, 2, [record(Kind.KERNEL, 90, 120), record(Kind.KERNEL, 150, 160)])
    found = overlaps(read_traces(tmp_path))
    assert [(o.first[-1], o.second[-1], o.begin_ns, o.end_ns) for o in found] == [
        ("1", "2", 90, 100),
        ("1", "2", 90, 120),
    ]


def test_kernels_on_different_cards_do_not_overlap(tmp_path: Path) -> None:
    write(tmp_path, 1, [record(Kind.KERNEL, 0, 100, card=0)])
    write(tmp_path, 2, [record(Kind.KERNEL, 0, 100, card=1)])
    assert overlaps(read_traces(tmp_path)) == []


def test_a_kernel_outside_its_process_turn_is_a_trespass(tmp_path: Path) -> None:
    write(tmp_path, 1, [record(Kind.KERNEL, 10, 20), record(Kind.KERNEL, 28, 35)])
    (trace,) = read_traces(tmp_path)
    holds = {(trace.process, CARD): [(0, 25), (25, 30)]}
    assert trespasses([trace], holds) == [Trespass(CARD, trace.process, trace.records[1])]
    assert trespasses([trace], {(trace.process, CARD): [(0, 40)]}) == []


def test_intervals_merge_over_touching_ends_and_small_gaps() -> None:
    assert merge([(5, 6), (0, 2), (2, 3)]) == [(0, 3), (5, 6)]
    assert merge([(0, 3), (5, 6)], gap_ns=2) == [(0, 6)]


def test_the_timeline_has_a_lane_per_process_with_holes_closed_and_the_share_of_paging(tmp_path: Path) -> None:
    ms = 1_000_000
    write(
        tmp_path, 1, [record(Kind.KERNEL, 0, 10 * ms, page_in=5 * ms), record(Kind.COPY, 11 * ms, 20 * ms)], scale=0.5
    )
    write(tmp_path, 2, [record(Kind.KERNEL, 60 * ms, 100 * ms)], scale=0.5)
    picture = timeline(read_traces(tmp_path), gap_s=0.01)
    assert picture.length_s == pytest.approx(0.2)
    (card,) = picture.cards
    first, second = card.lanes
    assert [(span.begin_s, span.end_s, span.paging) for span in first.spans] == [(0.0, 0.04, 0.25)]
    assert [(span.begin_s, span.end_s, span.paging) for span in second.spans] == [(0.12, 0.2, 0.0)]
    assert (first.kernels, first.label) == (1, "train.py (77)")
    assert card.busy_s == pytest.approx(0.118)


def test_no_work_gives_an_empty_timeline(tmp_path: Path) -> None:
    write(tmp_path, 1, [])
    assert timeline(read_traces(tmp_path)).cards == ()
