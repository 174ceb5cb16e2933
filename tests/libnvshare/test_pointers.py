"""Memory that the library made managed looks like the device memory that the program asked for."""

from typing import Any

import pytest

from libnvshare.programs import CHECKS, NOT_INSTALLED, Programs

POOL_POINTERS = pytest.mark.parametrize("pool_pointers", ["device", "managed"])
"""What the driver reports of memory from managed pools."""


def queries(on_card: Programs, pool_pointers: str, environment: dict[str, str]) -> None:
    arguments = ["shown"] if pool_pointers == "managed" else []
    settings: dict[str, Any] = {"NVSHARE_SIM_POOL_POINTERS": pool_pointers, **environment}
    done = on_card.run(CHECKS / "lib_pointer", *arguments, **settings)
    assert done.returncode == 0, done.stdout + done.stderr


@POOL_POINTERS
def test_memory_from_cu_mem_alloc_and_from_the_default_pool_looks_like_device_memory_in_all_queries(
    on_card: Programs, pool_pointers: str
) -> None:
    queries(on_card, pool_pointers, {"NVSHARE_SOCKET": NOT_INSTALLED})


@POOL_POINTERS
def test_without_the_library_it_is_device_memory(on_card: Programs, pool_pointers: str) -> None:
    queries(on_card, pool_pointers, {"LD_PRELOAD": ""})
