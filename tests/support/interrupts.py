"""Programs that hear Ctrl-C, however the tests are run."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def sigint_is_not_ignored() -> Iterator[None]:
    """Programs that a shell starts in the background ignore SIGINT, and so do their children. Here they do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
