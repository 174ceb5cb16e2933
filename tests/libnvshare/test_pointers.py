"""Memory that the library made managed looks like the device memory that the program asked for."""

from libnvshare.programs import CHECKS, NOT_INSTALLED, Programs


def test_memory_from_cu_mem_alloc_looks_like_device_memory_in_all_queries(on_card: Programs) -> None:
    done = on_card.run(CHECKS / "lib_pointer", NVSHARE_SOCKET=NOT_INSTALLED)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_the_library_it_is_device_memory(on_card: Programs) -> None:
    done = on_card.run(CHECKS / "lib_pointer", LD_PRELOAD="")
    assert done.returncode == 0, done.stdout + done.stderr
