"""The NVML adapter on the simulated NVML, in a process of its own: the library is found when a process starts."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.events import RECOVERED, inject_xid

PROLOGUE = "import json, os, sys\nfrom nvshare.inventory.nvml import *\n"


def python(place: Path, script: str, **settings: object) -> Any:
    """What a script prints as JSON, run on a simulated node."""
    environment = SimGpu().with_values(directory=str(place), **settings).environment()
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(script)],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_gpu_is_discovered(tmp_path: Path) -> None:
    gpus = python(
        tmp_path,
        "with Nvml() as nvml: print(json.dumps([[g.index, g.uuid, g.total_bytes, g.name] for g in nvml.discover()]))",
        gpus=3, memory="16Gi",
    )  # fmt: skip
    assert [(index, total) for index, _, total, _ in gpus] == [(0, 16 << 30), (1, 16 << 30), (2, 16 << 30)]
    assert len({uuid for _, uuid, _, _ in gpus}) == 3


def test_the_instances_of_a_card_in_mig_mode_are_discovered_instead_of_it(tmp_path: Path) -> None:
    gpus = python(
        tmp_path,
        """
        nvml = Nvml()
        found = nvml.discover()
        samples = [nvml.sample(gpu.uuid) for gpu in found]
        print(json.dumps([[g.index, g.uuid, g.total_bytes, g.name, s.total_bytes] for g, s in zip(found, samples)]))
        """,
        gpus=2, memory="10Gi", mig=True,
    )  # fmt: skip
    uuids = [uuid for _, uuid, _, _, _ in gpus]
    assert len(set(uuids)) == 2
    assert all(uuid.startswith("MIG-") for uuid in uuids)
    name = "Simulated GPU MIG 1g.10gb"
    assert gpus == [[0, uuid, 10 << 30, name, 10 << 30] for uuid in uuids]


def test_a_gpu_whose_memory_nvml_does_not_report_has_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GB10, which shares the memory of the machine."""
    monkeypatch.setenv("NVSHARE_SIM_NVML_MEMORY", "0")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    found = python(
        tmp_path,
        """
        nvml = Nvml()
        (gpu,) = nvml.discover()
        sample = nvml.sample(gpu.uuid)
        print(json.dumps([gpu.total_bytes, gpu.shares_host_memory, sample.total_bytes, sample.used_bytes]))
        """,
        gpus=1,
    )
    assert found == [machine, True, machine, 0]


def test_a_sample_names_who_uses_how_much(tmp_path: Path) -> None:
    empty, used, processes, pid = python(
        tmp_path,
        """
        import ctypes
        nvml = Nvml()
        uuid = nvml.discover()[0].uuid
        empty = nvml.sample(uuid)
        cuda = ctypes.CDLL("libcuda.so.1")
        context, memory = ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0
        full = nvml.sample(uuid)
        print(json.dumps([empty.used_bytes, full.used_bytes, full.processes, os.getpid()]))
        """,
    )
    assert empty == 0
    assert used >= 1 << 30
    assert processes.keys() == {str(pid)}
    assert processes[str(pid)] >= 1 << 30


@pytest.mark.parametrize(("is_mig", "wanted"), [(False, 0), (True, None)])
def test_a_card_in_mig_mode_has_no_utilisation(tmp_path: Path, is_mig: bool, wanted: int | None) -> None:
    script = """
        nvml = Nvml()
        print(json.dumps([nvml.sample(gpu.uuid).utilization_percent for gpu in nvml.discover()]))
    """
    assert python(tmp_path, script, gpus=1, mig=is_mig) == [wanted]


def test_an_xid_error_is_heard_and_a_reset_wanted_until_it_is_done(tmp_path: Path) -> None:
    script = """
        nvml = Nvml()
        uuids = tuple(gpu.uuid for gpu in nvml.discover())
        deaf = nvml.watch_xids(uuids)
        silence = nvml.wait_xid(10)
        print(json.dumps([deaf, silence, uuids]), flush=True)
        sys.stdin.readline()
        xid = nvml.wait_xid(5000)
        print(json.dumps([xid.uuid, xid.code, nvml.needs_recovery(uuids[1])]), flush=True)
        sys.stdin.readline()
        print(json.dumps(nvml.needs_recovery(uuids[1])), flush=True)
        nvml.close()
    """
    environment = SimGpu().with_values(directory=str(tmp_path), gpus=2).environment()
    child = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + textwrap.dedent(script)],
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child:
        assert child.stdin is not None
        assert child.stdout is not None
        deaf, silence, uuids = json.loads(child.stdout.readline())
        assert (deaf, silence) == ([], None)
        inject_xid(uuids[1], 79, directory=tmp_path)
        child.stdin.write("\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) == [uuids[1], 79, True]
        inject_xid(uuids[1], RECOVERED, directory=tmp_path)
        child.stdin.write("\n")
        child.stdin.flush()
        assert json.loads(child.stdout.readline()) is False


def test_a_strange_gpu_is_lost_not_a_crash(tmp_path: Path) -> None:
    script = """
        try:
            Nvml().sample("GPU-00000000-0000-0000-0000-000000000000")
        except GpuLostError as error:
            print(json.dumps(str(error)))
    """
    assert python(tmp_path, script)


def test_without_a_driver_the_remedy_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from nvshare.inventory.nvml import Nvml; Nvml()"],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "NvmlUnavailableError" in done.stderr
    assert "is the NVIDIA driver installed" in done.stderr


LINK = "nvml = Nvml(); print(json.dumps([str(gpu.link) for gpu in nvml.discover()]))"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, "PCIe 3 x16"),  # 12 GB/s; the card is idle, so its present generation is 1
        ({"card": "a100"}, "PCIe 4 x16"),
        ({"card": "h100"}, "PCIe 5 x16"),
        ({"copy_bandwidth": "3G"}, "PCIe 1 x16"),
        ({"nvml_link": "4x8"}, "PCIe 4 x8"),
        ({"nvml_link": "0"}, "None"),  # not supported
        ({"nvml_memory": 0}, "None"),  # it shares the memory of the machine
    ],
)
def test_a_gpu_has_the_link_that_nvml_reports(tmp_path: Path, settings: dict[str, object], wanted: str) -> None:
    assert python(tmp_path, LINK, gpus=1, **settings) == [wanted]


def test_an_instance_has_the_link_of_its_card(tmp_path: Path) -> None:
    assert python(tmp_path, LINK, gpus=2, mig=True) == ["PCIe 3 x16", "PCIe 3 x16"]


def test_a_card_that_does_not_tell_its_present_width_has_the_widest_that_it_can(tmp_path: Path) -> None:
    script = """
        def refuse(card):
            raise raw.NVMLError(raw.NVML_ERROR_NOT_SUPPORTED)
        raw.nvmlDeviceGetCurrPcieLinkWidth = refuse
        print(json.dumps([str(gpu.link) for gpu in Nvml().discover()]))
    """
    assert python(tmp_path, script, gpus=1) == ["PCIe 3 x16"]
