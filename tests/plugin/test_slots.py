"""Slots: names, counts, and which of them a container should get."""

import random
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.inventory.gpus import Gpu, SelectionError
from nvshare.plugin.slots import POLICIES, Offer, SlotError, gpu_of, gpus_of, offers, preferred, slot_ids


def gpus(count: int) -> list[Gpu]:
    return [Gpu(uuid=f"GPU-{number}", total_bytes=16 << 30, index=number, name="card") for number in range(count)]


def offered(count: int, slots: int = 4) -> tuple[Offer, ...]:
    return offers(gpus(count), slots)


def all_slots(offered: tuple[Offer, ...]) -> list[str]:
    return [slot for offer in offered for slot in slot_ids(offer)]


def prefer(
    policy: str, offered: tuple[Offer, ...], available: list[str], size: int, must: tuple[str, ...] = ()
) -> list[str]:
    return preferred(POLICIES[policy], offered, available=available, must=list(must), size=size)


def test_a_slot_is_named_after_its_gpu() -> None:
    assert slot_ids(offered(1, 2)[0]) == ["GPU-0__0", "GPU-0__1"]
    assert gpu_of("GPU-0__1") == "GPU-0"


@pytest.mark.parametrize("slot", ["", "GPU-0", "__1", "GPU-0__", "GPU-0__x", "GPU-0__²"])
def test_what_is_not_a_slot_is_refused(slot: str) -> None:
    with pytest.raises(SlotError):
        gpu_of(slot)


def test_each_gpu_is_named_once_in_the_order_offered() -> None:
    assert gpus_of(["GPU-1__3", "GPU-0__0", "GPU-1__0"], offered(2)) == ["GPU-0", "GPU-1"]
    with pytest.raises(SlotError, match="GPU-7"):
        gpus_of(["GPU-7__0"], offered(2))


def test_slots_can_differ_per_gpu() -> None:
    assert [offer.slots for offer in offers(gpus(3), 10, "1=4, GPU-2=0")] == [10, 4, 0]
    for bad in ("5=1", "1=many", "1", "1=100000"):
        with pytest.raises(SelectionError):
            offers(gpus(3), 10, bad)


def test_two_slots_are_spread_over_two_gpus() -> None:
    assert prefer("spread", offered(2), all_slots(offered(2)), 2) == ["GPU-0__0", "GPU-1__0"]


def test_a_single_slot_goes_to_the_least_loaded_gpu() -> None:
    available = [slot for slot in all_slots(offered(3)) if slot not in ("GPU-0__0", "GPU-1__0", "GPU-0__1")]
    assert prefer("spread", offered(3), available, 1) == ["GPU-2__0"]


def test_more_slots_than_gpus_wrap_around() -> None:
    assert Counter(map(gpu_of, prefer("spread", offered(2), all_slots(offered(2)), 5))) == {"GPU-0": 3, "GPU-1": 2}


def test_pack_fills_the_fullest_gpu_first() -> None:
    available = [slot for slot in all_slots(offered(3)) if slot not in ("GPU-1__0", "GPU-1__1")]
    assert prefer("pack", offered(3), available, 3) == ["GPU-1__2", "GPU-1__3", "GPU-0__0"]


def test_what_must_be_included_is_and_counts_towards_spreading() -> None:
    assert prefer("spread", offered(2), all_slots(offered(2)), 2, ("GPU-0__3",)) == ["GPU-0__3", "GPU-1__0"]
    assert prefer("pack", offered(2), all_slots(offered(2)), 2, ("GPU-1__3",)) == ["GPU-1__3", "GPU-1__0"]


def test_slots_of_a_gpu_that_is_gone_are_passed_over() -> None:
    assert prefer("spread", offered(1), ["GPU-9__0", "GPU-0__0"], 2) == ["GPU-0__0"]


@given(st.data())
def test_the_choice_is_always_valid_spread_wide_and_repeatable(data: st.DataObject) -> None:
    offer = offered(data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6)))
    everything = all_slots(offer)
    available = data.draw(st.lists(st.sampled_from(everything), unique=True, min_size=1))
    size = data.draw(st.integers(1, len(available)))
    must = tuple(data.draw(st.lists(st.sampled_from(available), unique=True, max_size=size)))
    for policy in POLICIES:
        picked = prefer(policy, offer, available, size, must)
        assert len(picked) == len(set(picked)) == size
        assert set(must) <= set(picked) <= set(available)
        shuffled = random.Random(0).sample(available, len(available))
        assert sorted(prefer(policy, offer, shuffled, size, must)) == sorted(picked)
    reachable = len(set(map(gpu_of, available)))
    if not must:
        assert len(set(map(gpu_of, prefer("spread", offer, available, size)))) == min(size, reachable)


def test_sixteen_gpus_of_a_hundred_slots_are_chosen_from_quickly() -> None:
    offer = offered(16, 100)
    available = all_slots(offer)
    took = []
    for _ in range(5):
        began = time.process_time()
        prefer("spread", offer, available, 16)
        took.append(time.process_time() - began)
    assert min(took) < 0.05
