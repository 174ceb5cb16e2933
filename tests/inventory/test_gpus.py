"""Choosing GPUs by what people call them."""

import pytest

from nvshare.inventory.gpus import Gpu, SelectionError, select

GPUS = [Gpu(uuid=f"GPU-{letter}", total_bytes=1, index=index, name="card") for index, letter in enumerate("abc")]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("all", "abc"), ("1", "b"), ("GPU-c,0", "ac"), ("2, 2 ,GPU-c", "c"), ("", "")],
)
def test_gpus_are_named_by_uuid_or_index_and_given_once_in_order(wanted: str, expected: str) -> None:
    assert select(GPUS, wanted) == tuple(gpu for gpu in GPUS if gpu.uuid[-1] in expected)


def test_a_gpu_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(SelectionError, match=r"no GPU '7'; it has: 0 \(GPU-a\)"):
        select(GPUS, "7")


def test_the_beginning_of_a_uuid_means_its_gpu_if_it_is_clear() -> None:
    cards = [Gpu("GPU-7abc-1", 1, 0, ""), Gpu("GPU-7abd-2", 1, 1, "")]
    assert select(cards, "GPU-7abd, 7abc") == tuple(cards)
    with pytest.raises(SelectionError, match="2 GPUs that begin with 'GPU-7'"):
        select(cards, "GPU-7")
    with pytest.raises(SelectionError, match="no GPU '7'"):
        select(cards, "7")
