"""A GPU is offered by the device plugin or by the DRA driver, never by both."""

from pathlib import Path

import pytest

from nvshare.plugin.served_gpus import DEVICE_PLUGIN, DRA_DRIVER, GpuServedError, ServedGpus


def test_the_second_program_is_refused_with_the_remedy_until_the_first_ends(tmp_path: Path) -> None:
    for first, second in ((DEVICE_PLUGIN, DRA_DRIVER), (DRA_DRIVER, DEVICE_PLUGIN)):
        holder, other = ServedGpus(tmp_path / "served", first), ServedGpus(tmp_path / "served", second)
        holder.take(["GPU-a", "GPU-b"])
        with pytest.raises(GpuServedError, match=f"GPU-b is offered by {first}.*--gpus"):
            other.take(["GPU-c", "GPU-b"])
        holder.release()
        other.take(["GPU-c", "GPU-b"])
        other.release()


def test_each_program_may_have_gpus_of_its_own(tmp_path: Path) -> None:
    plugin, driver = ServedGpus(tmp_path, DEVICE_PLUGIN), ServedGpus(tmp_path, DRA_DRIVER)
    plugin.take(["GPU-a", "MIG-GPU-a/1/0"])
    driver.take(["GPU-b", "MIG-GPU-a/2/0"])
    plugin.release()
    driver.release()


def test_two_instances_of_one_program_may_run_during_an_update(tmp_path: Path) -> None:
    old, new = ServedGpus(tmp_path, DRA_DRIVER), ServedGpus(tmp_path, DRA_DRIVER)
    old.take(["GPU-a"])
    new.take(["GPU-a"])
    old.release()
    with pytest.raises(GpuServedError):
        ServedGpus(tmp_path, DEVICE_PLUGIN).take(["GPU-a"])
    new.release()


def test_without_the_directory_nothing_is_offered_and_the_error_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    plugin = ServedGpus(tmp_path / "file", DEVICE_PLUGIN)
    with pytest.raises(GpuServedError, match=r"cannot check whether nvshare-dra-driver offers.*file.*mount"):
        plugin.take(["GPU-a"])


def test_a_lock_that_cannot_be_taken_leaves_no_other_behind(tmp_path: Path) -> None:
    (tmp_path / f"GPU-b.{DRA_DRIVER}").mkdir()
    plugin = ServedGpus(tmp_path, DEVICE_PLUGIN)
    with pytest.raises(GpuServedError, match="cannot check"):
        plugin.take(["GPU-a", "GPU-b"])
    driver = ServedGpus(tmp_path, DRA_DRIVER)
    driver.take(["GPU-a"])
    driver.release()
