"""Looks as bits of integers (compute.gpu_time), and how a look is divided among the clients that are busy at it."""

from functools import reduce
from itertools import zip_longest
from operator import or_

from nvshare.core.model import SECOND

LOOK_NS = SECOND // 1000
MOST_APART = 16
"""If more clients than this were busy, all looks are divided together: in proportion to the number of looks at which
each client was busy."""


def split(counts: list[int]) -> list[int]:
    """What each client had of the looks at which it was busy, in nanoseconds."""
    if sum(1 for count in counts if count) > MOST_APART:
        total = sum(count.bit_count() for count in counts)
        busy_ns = reduce(or_, counts).bit_count() * LOOK_NS
        return [count.bit_count() * busy_ns // total for count in counts]
    masks = _by_number(counts)
    return [sum((c & mask).bit_count() * (LOOK_NS // n) for n, mask in enumerate(masks, 1)) for c in counts]


def _by_number(counts: list[int]) -> list[int]:
    """The looks at which exactly 1, 2, ... clients were busy."""
    at_least: list[int] = []
    for count in counts:
        for index, mask in enumerate(at_least):
            at_least[index], count = mask | count, mask & count
        if count:
            at_least.append(count)
    return [mask & ~more for mask, more in zip_longest(at_least, at_least[1:], fillvalue=0)]


def ones_from(since: int | None, upto: int, looks: int) -> int:
    """The looks from `since` on."""
    if since is None or since >= upto + looks:
        return 0
    begin = max(0, since - upto)
    return ones(looks - begin) << begin


def ones(count: int) -> int:
    return (1 << count) - 1
