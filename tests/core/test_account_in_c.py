"""The library's own account of a limit does exactly what the members that drive the budget tests do."""

import ctypes
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from members import GPU, Account

from nvshare.core import actions as ac
from nvshare.core.model import GIB, MIB, UNLIMITED

LIBRARY = Path(__file__).parents[2] / "native" / "libnvshare"
COMPILER = shutil.which("cc") or shutil.which("gcc")
VERDICTS = ("room", "ask", "refuse")
SIZES = [0, MIB, GIB, 2 * GIB, 5 * GIB, 8 * GIB]

SHIM = """
#include "account.h"
#include "wire.h"
struct nvs_account account;
void start(uint64_t own_limit) { nvs_account_init(&account, UINT64_C(80) << 30, own_limit, true); }
int reserve(uint64_t bytes) { return nvs_account_reserve(&account, bytes, true); }
void give_back(uint64_t bytes) { nvs_account_return(&account, bytes, true); }
void limit(uint64_t bytes) { nvs_account_limit(&account, bytes); }
void budget(uint64_t bytes) { nvs_account_budget(&account, bytes, 0); }
void recall(uint64_t keep) { nvs_account_recall(&account, keep); }
void look(uint64_t *out)
{
    out[0] = account.used;
    out[1] = account.limit;
    out[2] = account.budget;
    out[3] = account.keep;
}
"""


@pytest.fixture(scope="module")
def c_account(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("account")
    source, library = folder / "shim.c", folder / "account.so"
    source.write_text(SHIM)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", str(LIBRARY)]
    subprocess.run([COMPILER, *flags, "-o", library, source, LIBRARY / "account.c"], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in ("start", "give_back", "limit", "budget", "recall"):
        getattr(loaded, name).argtypes = [ctypes.c_uint64]
        getattr(loaded, name).restype = None
    loaded.reserve.argtypes = [ctypes.c_uint64]
    return loaded


def _look(c_account: ctypes.CDLL) -> Account:
    out = (ctypes.c_uint64 * 4)()
    c_account.look(out)
    used, limit, budget, keep = out
    return Account(used, limit, budget, None if keep == UNLIMITED else keep)


@pytest.mark.parametrize("seed", range(5))
def test_the_librarys_account_keeps_the_same_books(c_account: ctypes.CDLL, seed: int) -> None:
    chance = random.Random(seed)
    own_limit = chance.choice([0, 4 * GIB])
    account = Account(limit=own_limit)
    c_account.start(own_limit)
    verdicts: set[str] = set()
    for _ in range(3000):
        size = chance.choice(SIZES)
        match chance.choice(["reserve", "reserve", "free", "limit", "budget", "recall"]):
            case "reserve":
                verdict = account.reserve(size)
                assert VERDICTS[c_account.reserve(size)] == verdict
                verdicts.add(verdict)
            case "free":
                size = min(size, account.used)
                account.free(size)
                c_account.give_back(size)
            case "limit":
                account.hear(ac.UpdateLimit(1, GPU, size))
                c_account.limit(size)
                if size == 0:  # The scheduler lifts the budget with the limit.
                    account.hear(ac.GiveBudget(1, GPU, 1, 0, UNLIMITED, 0))
                    c_account.budget(UNLIMITED)
            case "budget" if account.limit:
                budget = max(account.used, chance.choice([*SIZES, UNLIMITED]))
                account.hear(ac.GiveBudget(1, GPU, 1, 0, budget, 0))
                c_account.budget(budget)
            case "recall" if account.limit:
                account.hear(ac.RecallBudget(1, GPU, 1, size))
                c_account.recall(size)
            case _:
                pass  # Without a limit nothing is handed out or recalled.
        assert _look(c_account) == account
    assert verdicts == set(VERDICTS)
