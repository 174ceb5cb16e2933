"""The numbers of locks."""

from collections.abc import Iterator
from itertools import count


def lock_numbers(epoch: int) -> Iterator[int]:
    """The lock numbers of this daemon: the epoch in the high half, never the same twice."""
    return count((epoch << 32) + 1)
