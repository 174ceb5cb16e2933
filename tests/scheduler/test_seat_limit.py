"""How many places at GPUs (clients x GPUs) an account may have."""

import pytest

from nvshare.scheduler.clients.connection_admission import MAX_SEATS, Account, ConnectionAdmission, RefusedError

GPUS = tuple(f"GPU-{number}" for number in range(64))


def test_an_account_has_a_limit_of_seats_and_gets_them_back() -> None:
    admission = ConnectionAdmission(max_connections=1, max_per_account=1)
    account, other = Account("uid/1"), Account("uid/2")
    for _ in range(MAX_SEATS // len(GPUS)):
        admission.admit_gpus(account, GPUS, len(GPUS))
    with pytest.raises(RefusedError, match="uid/1 have 8192 places"):
        admission.admit_gpus(account, GPUS[:1], len(GPUS))
    admission.admit_gpus(other, GPUS, len(GPUS))
    account.forget_gpus(GPUS)
    admission.admit_gpus(account, GPUS, len(GPUS))
    assert account.gpus.total() == MAX_SEATS
