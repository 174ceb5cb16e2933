"""Policy fair, side by side: which clients have had more of a GPU than their weights say.

At each look (compute.gpu_time) clients compete if they are busy, or held back because they are ahead:

    due of a client  = Σ over the looks at which it competes: LOOK_NS * weight / Σ weights of all that compete then
    lead             = GPU time - due
                       at least -MOST_CREDIT_NS, at most LONGEST_HOLD_NS * weight / Σ weights of all that compete

A client without work does not compete: it holds no other client back, and saves nothing up. If no client that may run
is busy, those that are held back get all that is due. The bounds of the lead must not leave all clients with a lead:
then some client would always be held back. So the lowest lead of the competing clients is never above 0."""

from collections.abc import Sequence
from functools import reduce
from itertools import compress
from operator import or_

from nvshare.core.compute.gpu_time import Chunk
from nvshare.core.compute.look_bits import LOOK_NS, MOST_APART
from nvshare.core.model import MILLISECOND, SECOND

MOST_LEAD_NS = 100 * MILLISECOND
MOST_CREDIT_NS = SECOND
LONGEST_HOLD_NS = 60 * SECOND
"""A lead is repaid at the client's part of the weights, so no client is held back for longer than this. The lead of a
client that is light beside the others therefore stays below MOST_LEAD_NS: see `most_lead_ns`."""

LANE = 4
MOST_WEIGHT = (1 << 8 * LANE) // (2 * MOST_APART)
"""The sum of MOST_APART such weights fits into a lane. Users may choose up to 1000."""
PRECISION = 20
_FLAGS = bytes.maketrans(b"01", b"\0\1")


class WeightedTime:
    """The leads of one GPU's clients since look `begin`."""

    __slots__ = ("_leads", "begin")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self._leads: dict[int, int] = {}

    def charge(self, chunk: Chunk) -> None:
        """What each client had at these looks; once for each look."""
        self._leads, _ = self.leads(chunk)

    def leads(self, chunk: Chunk) -> tuple[dict[int, int], int]:
        """By client, if these looks are charged too; and the sum of the weights of the clients that compete at them."""
        entries, parts = chunk.entries, chunk.parts(self.begin)
        skipped = max(0, self.begin - chunk.first)
        masks = [entry.competes(chunk.first, chunk.looks) >> skipped for entry in entries]
        weights = [1 if entry.seat is None else max(1, min(entry.seat.weight, MOST_WEIGHT)) for entry in entries]
        leads = dict(self._leads)
        total = max(1, sum(weight for weight, mask in zip(weights, masks, strict=True) if mask))
        competing: list[int] = []
        for entry, part, due, mask, weight in zip(entries, parts, dues(masks, weights), masks, weights, strict=True):
            if entry.seat is not None:
                lead = leads.get(entry.seat.client, 0) + part - due
                leads[entry.seat.client] = max(-MOST_CREDIT_NS, min(lead, LONGEST_HOLD_NS * weight // total))
                competing += [entry.seat.client] * (mask != 0)
        low = min((leads[client] for client in competing), default=0)
        for client in competing if low > 0 else ():
            leads[client] -= low
        return leads, total

    def left(self, client: int) -> None:
        self._leads.pop(client, None)


def most_lead_ns(weight: int, total: int) -> int:
    """A client that leads by more is held back."""
    return min(MOST_LEAD_NS, LONGEST_HOLD_NS * max(1, weight) // total // 2)


def dues(masks: list[int], weights: list[int]) -> list[int]:
    """What each should have had, in nanoseconds. If many compete, all looks are divided up together."""
    if sum(1 for mask in masks if mask) > MOST_APART:
        return _dues_together(masks, weights)
    looks = max((mask.bit_length() for mask in masks), default=0)
    flags = [f"{mask:0{looks}b}".encode().translate(_FLAGS) if mask else b"" for mask in masks]
    rates = [(LOOK_NS << PRECISION) // total if total else 0 for total in _totals(flags, weights, looks)]
    return [
        weight * sum(compress(rates, flag)) >> PRECISION if flag else 0
        for flag, weight in zip(flags, weights, strict=True)
    ]


def _totals(flags: list[bytes], weights: list[int], looks: int) -> Sequence[int]:
    """For each look, the sum of the weights of the competing clients. The looks of a client are lanes of LANE bytes in
    one integer, so all looks are added at once, however often the competing clients change."""
    sums = sum(
        weight * int.from_bytes(flag.decode("ascii").encode("utf-32-le"), "little")
        for flag, weight in zip(flags, weights, strict=True)
        if flag
    )
    return memoryview(sums.to_bytes(LANE * looks, "little")).cast("I")


def _dues_together(masks: list[int], weights: list[int]) -> list[int]:
    everybody = reduce(or_, masks).bit_count() * LOOK_NS
    wanted = [mask.bit_count() * weight for mask, weight in zip(masks, weights, strict=True)]
    return [everybody * one // sum(wanted) for one in wanted]
