"""What a client takes of the scheduler's memory, as documented in connection_admission and docs/security.md."""

import contextlib
import os
import sys

import pytest

from support.client import entry
from support.daemon import Daemon

CLIENTS, GPUS = 64, 64
PAIR_BYTES, OWN_RUN_PAIR_BYTES = 2500, 7400
"""A pair of a client and a GPU; the same with a run ID of each client's own."""
DRIFT = 1.4

pytestmark = pytest.mark.skipif(
    bool({"PYTHONMALLOC", "PYTHONDEVMODE", "COVERAGE_PROCESS_START", "MALLOC_PERTURB_"} & os.environ.keys())
    or sys.gettrace() is not None,
    reason="memory is counted otherwise",
)


@pytest.mark.parametrize(("has_own_run", "documented"), [(False, PAIR_BYTES), (True, OWN_RUN_PAIR_BYTES)])
def test_a_pair_of_a_client_and_a_gpu_takes_as_much_as_documented(
    daemon: Daemon, has_own_run: bool, documented: int
) -> None:
    gpus = [entry(number) for number in range(GPUS)]
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon.client().register(*gpus))
        before = daemon.memory_bytes()
        for number in range(CLIENTS):
            run = (number + 1).to_bytes(16, "big") if has_own_run else bytes(16)
            stack.enter_context(daemon.client().register(*gpus, run=run))
        measured = (daemon.memory_bytes() - before) / (CLIENTS * GPUS)
    print(f"{measured:.0f} bytes")
    assert documented / DRIFT < measured < documented * DRIFT
