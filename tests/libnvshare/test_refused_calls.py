"""Calls that the driver refuses: the library changes no answer, and reads nothing that the driver has not accepted."""

from itertools import zip_longest
from typing import Any

import pytest

from libnvshare.programs import CHECKS, NOT_INSTALLED, Programs


@pytest.mark.parametrize("memory_mode", ["managed", "native", "checkpoint"])
def test_a_call_with_wrong_arguments_gets_the_answer_of_the_driver(on_card: Programs, memory_mode: str) -> None:
    settings: dict[str, Any] = {"NVSHARE_SOCKET": NOT_INSTALLED, "NVSHARE_MEMORY_MODE": memory_mode}
    bare = on_card.run(CHECKS / "lib_refused", **settings, LD_PRELOAD="")
    shared = on_card.run(CHECKS / "lib_refused", **settings)
    answers = zip_longest(shared.stdout.splitlines(), bare.stdout.splitlines())
    assert [pair for pair in answers if pair[0] != pair[1]] == [], shared.stderr
    assert (bare.returncode, shared.returncode) == (0, 0), shared.stderr
    assert len(bare.stdout.splitlines()) > 600
