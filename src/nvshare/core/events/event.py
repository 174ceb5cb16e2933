"""The base of all events."""

from nvshare.record import Record


class Event(Record, frozen=True):
    """Something that happened."""
