"""How many places at GPUs (clients * GPUs) an account, and all accounts together, may have."""

import pytest

from nvshare.scheduler.clients.connection_admission import (
    FEW_SEATS,
    MAX_SEATS,
    MAX_SEATS_OF_ALL,
    Account,
    ConnectionAdmission,
    RefusedError,
)

GPUS = tuple(f"GPU-{number}" for number in range(64))
MAX_RESERVED = MAX_SEATS_OF_ALL // 8


@pytest.fixture
def admission() -> ConnectionAdmission:
    return ConnectionAdmission(max_connections=1, max_per_account=1)


def fill(admission: ConnectionAdmission, account: Account, seats: int) -> None:
    """Clients of the account that name all GPUs."""
    for _ in range(seats // len(GPUS)):
        admission.admit_gpus(account, GPUS, len(GPUS))


def test_an_account_has_a_limit_of_seats_and_gets_them_back(admission: ConnectionAdmission) -> None:
    account, other = Account("uid/1"), Account("uid/2")
    fill(admission, account, MAX_SEATS)
    with pytest.raises(RefusedError, match=r"programs of uid/1 may have 8192 places at GPUs .*, and 8193 are wanted"):
        admission.admit_gpus(account, GPUS[:1], len(GPUS))
    admission.admit_gpus(other, GPUS, len(GPUS))
    admission.forget_gpus(account, GPUS)
    admission.admit_gpus(account, GPUS, len(GPUS))
    assert account.gpus.total() == MAX_SEATS
    assert admission.seats == MAX_SEATS + len(GPUS)


def test_a_thousand_clients_of_an_account_use_all_gpus_of_a_machine_with_eight(admission: ConnectionAdmission) -> None:
    account = Account("uid/1")
    for _ in range(1000):
        admission.admit_gpus(account, GPUS[:8], 8)
    assert admission.seats == 8000


def test_the_last_eighth_of_all_seats_is_for_accounts_with_few(admission: ConnectionAdmission) -> None:
    first, second, newcomer = (Account(f"uid/{user}") for user in (1, 2, 3))
    fill(admission, first, MAX_SEATS)
    fill(admission, second, MAX_SEATS - MAX_RESERVED)
    with pytest.raises(RefusedError, match=r"last eighth of 16384 places .* at most 64; uid/2 wants 6145$"):
        admission.admit_gpus(second, GPUS[:1], len(GPUS))
    fill(admission, newcomer, FEW_SEATS)
    with pytest.raises(RefusedError, match=r"last eighth of 16384 places .* at most 64; uid/3 wants 65$"):
        admission.admit_gpus(newcomer, GPUS[:1], len(GPUS))
    admission.forget_gpus(first, GPUS)
    admission.forget_gpus(second, GPUS)
    admission.admit_gpus(newcomer, GPUS[:1], len(GPUS))


def test_all_accounts_together_have_a_limit_of_seats_and_get_them_back(admission: ConnectionAdmission) -> None:
    accounts = [Account(f"uid/{user}") for user in range(2 + MAX_RESERVED // FEW_SEATS)]
    fill(admission, accounts[0], MAX_SEATS)
    fill(admission, accounts[1], MAX_SEATS - MAX_RESERVED)
    for account in accounts[2:]:
        fill(admission, account, FEW_SEATS)
    assert admission.seats == MAX_SEATS_OF_ALL
    late = Account("uid/99")
    with pytest.raises(RefusedError, match=r"all programs together may have 16384 places .*, and 16385 are wanted"):
        admission.admit_gpus(late, GPUS[:1], len(GPUS))
    assert late.gpus.total() == 0
    admission.forget_gpus(accounts[2], GPUS)
    admission.admit_gpus(late, GPUS, len(GPUS))
    assert admission.seats == MAX_SEATS_OF_ALL
