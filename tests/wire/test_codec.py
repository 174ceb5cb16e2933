"""What the codec makes of bytes that nobody should have sent, and of those that a newer peer may send."""

import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import astuple

from nvshare.wire import messages as m
from nvshare.wire.codec import ENTRY_LAYOUT, LAYOUTS, Decoder, WireError, encode, packer
from nvshare.wire.layout import Layout
from wire.examples import EXAMPLES, register

ENTRY = EXAMPLES["register_one_gpu"].entries[0]  # type: ignore[attr-defined]


def frame(number: int, body: bytes = b"") -> bytes:
    return struct.pack("<HB", 3 + len(body), number) + body


def refusal(data: bytes, kinds: tuple[type[m.Message], ...] = m.MESSAGES) -> str:
    with pytest.raises(WireError) as caught:
        Decoder(kinds).feed(data)
    return str(caught.value)


# Any bytes.


@settings(max_examples=500)
@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_any_bytes_give_messages_or_a_wire_error(data: bytes, cuts: list[int]) -> None:
    decoder = Decoder(m.MESSAGES)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    try:
        for start, end in pairwise(edges):
            decoder.feed(data[start:end])
    except WireError:
        pass


@settings(max_examples=500)
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_spoiled_frame_gives_messages_or_a_wire_error(name: str, data: st.DataObject) -> None:
    spoiled = bytearray(encode(EXAMPLES[name]))
    for at in data.draw(st.lists(st.integers(0, len(spoiled) - 1), min_size=1, max_size=4)):
        spoiled[at] = data.draw(st.integers(0, 255))
    try:
        messages = Decoder(m.MESSAGES).feed(bytes(spoiled))
    except WireError:
        return
    for message in messages:
        assert type(message) in m.MESSAGES


def _values(layout: Layout, skip: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Any values that fit the fields' widths and bounds."""
    strategies: dict[str, st.SearchStrategy[Any]] = {}
    for field in layout.fields:
        fmt = field.width.fmt
        if field.name in skip:
            continue
        if fmt.endswith("s"):
            strategies[field.name] = st.binary(min_size=int(fmt[:-1]), max_size=int(fmt[:-1]))
        elif fmt == "?":
            strategies[field.name] = st.booleans()
        else:
            bits = 8 * struct.calcsize(fmt)
            least = -(1 << (bits - 1)) if fmt.islower() else 0
            most = (1 << (bits - 1)) - 1 if fmt.islower() else (1 << bits) - 1
            strategies[field.name] = st.integers(least, min(most, field.width.most or most))
    return st.fixed_dictionaries(strategies)


@settings(max_examples=300)
@given(st.sampled_from(m.MESSAGES), st.data())
def test_what_is_written_is_read_back(kind: type[m.Message], data: st.DataObject) -> None:
    values = data.draw(_values(LAYOUTS[kind], ("length", "type", "entry_count", "entry_size")))
    if kind is m.Register:
        one = _values(ENTRY_LAYOUT, ()).map(lambda fields: m.GpuEntry(**fields))
        entries = tuple(data.draw(st.lists(one, max_size=m.MAX_GPUS)))
        values |= {"entries": entries, "entry_count": len(entries), "entry_size": ENTRY_LAYOUT.size}
    message = kind(**values)
    assert Decoder(m.MESSAGES).feed(encode(message)) == [message]


@pytest.mark.parametrize("name", ["lock_ok", "budget", "mem_available"])
def test_a_packer_writes_what_encode_writes(name: str) -> None:
    message = EXAMPLES[name]
    assert packer(type(message))(*astuple(message)) == encode(message)


# Whose fault, and what.


def test_an_unknown_type_is_refused() -> None:
    assert refusal(frame(99)) == "unknown message type 99"


def test_the_reserved_number_is_unknown() -> None:
    assert refusal(frame(12)) == "unknown message type 12"


def test_a_message_that_only_the_scheduler_sends_is_unknown_to_it() -> None:
    assert refusal(encode(EXAMPLES["lock_ok"]), m.FROM_CLIENT) == "unknown message type 5"
    assert set(m.FROM_CLIENT) | set(m.FROM_SCHEDULER) == set(m.MESSAGES)
    assert not set(m.FROM_CLIENT) & set(m.FROM_SCHEDULER)


def test_a_bad_type_is_refused_before_its_frame_is_complete() -> None:
    assert refusal(struct.pack("<HB", 8000, 99)) == "unknown message type 99"


@pytest.mark.parametrize("length", [0, 2, m.MAX_FRAME + 1, 65535])
def test_an_impossible_length_is_refused_at_once(length: int) -> None:
    assert refusal(struct.pack("<HB", length, 4)) == f"frame length {length} is not within 3..{m.MAX_FRAME}"


def test_a_short_frame_is_refused() -> None:
    assert refusal(frame(4, b"\0")) == "ReqLock of 4 bytes, at least 24 expected"


def test_an_absurd_size_is_refused() -> None:
    absurd = encode(m.MemUpdate(0, 0, m.MAX_BYTES + 1, 0))
    assert refusal(absurd) == f"MemUpdate.swappable is absurd: {m.MAX_BYTES + 1}"


def test_an_absurd_size_in_an_entry_is_refused() -> None:
    size = m.MAX_BYTES + 1
    entry = m.GpuEntry(ENTRY.uuid, 0, 0, 0, size, 0, 0, 0, 0, 0)
    assert refusal(encode(register(entry))) == f"GpuEntry.size is absurd: {size}"


def test_more_gpus_than_there_can_be_are_refused() -> None:
    assert refusal(encode(register(*[ENTRY] * 65))) == "Register names 65 GPUs, at most 64 are possible"


def test_entries_that_are_too_short_are_refused() -> None:
    bad = m.Register(0, 1, 0, 0, bytes(16), bytes(48), 100, 1, 71, (ENTRY,))
    assert refusal(encode(bad)) == "Register entries of 71 bytes, at least 72 expected"


def test_fewer_entries_than_announced_are_refused() -> None:
    bad = m.Register(0, 1, 0, 0, bytes(16), bytes(48), 100, 2, 72, (ENTRY,))
    assert refusal(encode(bad)) == "Register of 160 bytes is too short for 2 GPUs"


def test_any_flag_but_zero_is_true() -> None:
    data = bytearray(encode(m.LockReleased(0, True, 5)))
    offset = next(field.offset for field in LAYOUTS[m.LockReleased].fields if field.name == "again")
    data[offset] = 200
    assert Decoder(m.MESSAGES).feed(bytes(data)) == [m.LockReleased(0, True, 5)]


def test_the_largest_frame_is_within_the_bound() -> None:
    assert len(encode(register(*[ENTRY] * m.MAX_GPUS))) <= m.MAX_FRAME


# A newer peer appends.


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_longer_frame_is_read_as_far_as_it_is_known(name: str) -> None:
    known = encode(EXAMPLES[name])
    longer = struct.pack("<H", len(known) + 16) + known[2:] + bytes(range(16))
    assert Decoder(m.MESSAGES).feed(longer + known) == [EXAMPLES[name], EXAMPLES[name]]


def test_longer_register_entries_are_read_as_far_as_they_are_known() -> None:
    old = register(ENTRY, ENTRY)
    fixed = LAYOUTS[m.Register].size
    body = encode(old)[fixed:]
    size = ENTRY_LAYOUT.size
    entries = b"".join(body[at : at + size] + b"newer..." for at in (0, size))
    newer = m.Register(0, 1, -3, 2 << 30, old.run, old.name, 300, 2, size + 8, ())
    head = encode(newer)
    read = Decoder(m.MESSAGES).feed(struct.pack("<H", len(head) + len(entries)) + head[2:] + entries)
    assert [message.entries for message in read] == [(ENTRY, ENTRY)]  # type: ignore[attr-defined]


def test_numbers_fixed_for_good() -> None:
    fixed = {
        1: "Register", 2: "SchedOn", 3: "SchedOff", 4: "ReqLock", 5: "LockOk", 6: "DropLock", 7: "LockReleased",
        8: "SetTq", 9: "MemUpdate", 10: "WaitForMem", 11: "MemAvailable", 13: "UpdateLimit", 14: "Contended",
        15: "Idle", 16: "Busy",
    }  # fmt: skip
    numbers = {message.number: message.__name__ for message in m.MESSAGES}
    assert {number: numbers[number] for number in fixed} == fixed
    assert len(numbers) == len(m.MESSAGES)
    assert 12 not in numbers
