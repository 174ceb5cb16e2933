"""What random bytes are thrown at, in Python. A target returns, or raises AssertionError: something else than the one
error it may give, or an answer that contradicts itself. Hypothesis drives them in the tests, atheris in `make fuzz`."""

import tempfile
from collections.abc import Callable
from fractions import Fraction

import msgspec

from nvshare import admin
from nvshare.config import OPTIONS, ConfigError, load
from nvshare.journal import JournalError, Step, line_of
from nvshare.kube import annotations
from nvshare.quantity import MAX_BYTES, QuantityError, parse_bytes
from nvshare.schedsim.replay import replay
from nvshare.wire.codec import Decoder, WireError, encode
from nvshare.wire.messages import FROM_CLIENT, FROM_SCHEDULER, Message

MAX_DIFFERENCES = 40


def decoder(data: bytes) -> None:
    """Whole or a byte at a time gives the same messages and the same verdict; what was read can be written."""
    for kinds in (FROM_CLIENT, FROM_SCHEDULER):
        whole, whole_error = _decode(Decoder(kinds), [data])
        bitwise, bitwise_error = _decode(Decoder(kinds), [data[at : at + 1] for at in range(len(data))])
        assert (whole_error is None) == (bitwise_error is None)
        if whole_error is None:
            assert whole == bitwise
        for message in bitwise:
            assert _decode(Decoder(kinds), [encode(message)])[0] == [message]


def _decode(reader: Decoder, pieces: list[bytes]) -> tuple[list[Message], WireError | None]:
    found: list[Message] = []
    for piece in pieces:
        try:
            found += reader.feed(piece)
        except WireError as error:
            return found, error
    return found, None


def control(data: bytes) -> None:
    """A request or an answer is understood, and then means the same when written and read again, or it is refused."""
    for decode in (admin.decode_request, admin.decode_answer):
        try:
            message = decode(data)
        except admin.AdminError:
            continue
        assert decode(admin.encode(message)) == message


def quantity(data: bytes) -> None:
    """Kubernetes' grammar by another road: a number times its suffix, rounded up."""
    text = data.decode("utf-8", "replace")
    try:
        found = parse_bytes(text)
    except QuantityError:
        return
    assert 0 <= found <= MAX_BYTES
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text[len(digits) :]
    powers = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
    if suffix in powers and "e" not in digits.lower():
        number = Fraction(digits.rstrip(".") if not digits.startswith(".") else "0" + digits) * powers[suffix]
        assert found == min(-(-number.numerator // number.denominator), MAX_BYTES)


def pod(data: bytes) -> None:
    """A pod is none of ours, or read with complaints; never a limit that nobody wrote."""
    try:
        read = msgspec.json.decode(data, type=annotations.Pod)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    before = annotations.PodSettings(limit=77)
    settings, complaints = annotations.read_settings(read, before)
    if annotations.MEMORY_LIMIT not in (read.metadata.annotations or {}):
        assert settings.limit is None
    for complaint in complaints:
        assert str(complaint)
    uid = annotations.node_uid(read)
    assert uid == read.metadata.uid or (len(uid) == 32 and not set(uid) - set("0123456789abcdef"))
    assert annotations.label(read).count("/") >= 1
    assert not annotations.has_slot(read) or annotations.RESOURCE.encode() in msgspec.json.encode(read)


def config_file(data: bytes) -> None:
    """A configuration, or one line that says what is wrong with it."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            load(["--config", file.name], {}, OPTIONS)
        except ConfigError:
            return


def journal(data: bytes) -> None:
    """Replayed, or refused by line. Where the core does otherwise than is written, it is given that, and goes on."""
    lines = data.splitlines()
    for _ in range(MAX_DIFFERENCES):
        try:
            difference = replay(lines).difference
        except JournalError:
            return
        if difference is None:
            return
        step = difference.step
        lines[difference.line - 1] = line_of(Step(step.now, 0.0, step.event, difference.ours))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decoder": decoder,
    "control": control,
    "quantity": quantity,
    "pod": pod,
    "config_file": config_file,
    "journal": journal,
}
