"""`nvshare doctor`: what it finds on machines of all kinds."""

import json
import os
import socket
from pathlib import Path

import pytest

from cli.conftest import Front
from nvshare.cli.doctor import checks as checks
from nvshare.cli.doctor.clients import check_client
from nvshare.cli.doctor.finding import Finding
from nvshare.cli.doctor.machine import CheckedMachine
from nvshare.cli.doctor.scheduler import check_scheduler
from nvshare.cli.doctor.unshared import check_unshared
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, HostRoom, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.simgpu.config import SimGpu

GPU = "GPU-11111111-2222-3333-4444-555555555555"


def machine(root: Path, **variables: str) -> CheckedMachine:
    kept = {"PATH": os.environ["PATH"], **variables}
    return CheckedMachine(kept, root, str(root / "scheduler.sock"), str(root / "operator" / "control.sock"))


def put(root: Path, path: str, text: str = "") -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def found(check: checks.Check, looked_at: CheckedMachine) -> list[Finding]:
    return list(check(looked_at))


def test_a_bare_machine_has_nothing_to_say_about_what_it_does_not_have(tmp_path: Path) -> None:
    for check in (checks.check_device_files, checks.check_mps, checks.check_selinux, checks.check_kubernetes):
        assert found(check, machine(tmp_path)) == []


def test_the_library_loads_here(tmp_path: Path) -> None:
    (finding,) = found(checks.check_library, machine(tmp_path))
    assert finding.level == "ok"


def test_a_library_for_another_machine_fails_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "libnvshare.so", "not a library")
    monkeypatch.setenv("NVSHARE_LIBRARY", str(tmp_path / "libnvshare.so"))
    (finding,) = found(checks.check_library, machine(tmp_path))
    assert finding.level == "fail"
    assert "cannot be preloaded" in finding.text
    assert "make native" in finding.remedy


def test_a_driver_that_cannot_be_loaded_is_a_failure_that_names_the_remedy(tmp_path: Path) -> None:
    put(tmp_path, "/lib/libcuda.so.1")  # empty, and found before the one that a developer's machine may have
    (finding,) = found(checks.check_driver, machine(tmp_path, LD_LIBRARY_PATH=str(tmp_path / "lib")))
    assert finding.level == "fail"
    assert "libcuda.so.1 cannot be loaded" in finding.text
    assert "--sim-gpus" in finding.remedy


def test_a_missing_uvm_device_file_is_found(tmp_path: Path) -> None:
    put(tmp_path, "/proc/driver/nvidia/version", "NVRM")
    put(tmp_path, "/dev/nvidiactl")
    findings = found(checks.check_device_files, machine(tmp_path))
    assert [finding.level for finding in findings] == ["ok", "fail"]
    assert findings[1].remedy == "nvidia-modprobe -u -c 0"


def test_mps_is_found_where_the_environment_says(tmp_path: Path) -> None:
    put(tmp_path, "/pipes/control")
    (finding,) = found(checks.check_mps, machine(tmp_path, CUDA_MPS_PIPE_DIRECTORY="/pipes"))
    assert finding.level == "warn"
    assert "MPS" in finding.text


@pytest.mark.parametrize(("enforce", "count"), [("1", 1), ("0", 0)])
def test_selinux_matters_only_when_it_enforces(tmp_path: Path, enforce: str, count: int) -> None:
    put(tmp_path, "/sys/fs/selinux/enforce", enforce)
    assert len(found(checks.check_selinux, machine(tmp_path))) == count


def test_nvidias_device_plugin_beside_ours_is_a_warning(tmp_path: Path) -> None:
    for name in ("kubelet.sock", "nvshare.sock", "nvidia-gpu.sock"):
        put(tmp_path, f"/var/lib/kubelet/device-plugins/{name}")
    findings = found(checks.check_kubernetes, machine(tmp_path))
    assert [finding.level for finding in findings] == ["ok", "warn"]


def test_a_switched_off_library_is_pointed_out(tmp_path: Path) -> None:
    (finding,) = found(checks.check_environment, machine(tmp_path, NVSHARE_DISABLE="1"))
    assert finding.remedy == "unset NVSHARE_DISABLE"


@pytest.mark.parametrize("setting", [{"NVSHARE_PREFETCH": "0"}, {"NVSHARE_MEMORY_MODE": "native"}])
def test_a_user_who_switches_bulk_moves_off_is_told_so(tmp_path: Path, setting: dict[str, str]) -> None:
    (finding,) = found(checks.check_environment, machine(tmp_path, **setting))
    assert (finding.level, "no bulk moves" in finding.text) == ("info", True)
    assert found(checks.check_environment, machine(tmp_path, NVSHARE_PREFETCH="1", NVSHARE_MEMORY_MODE="managed")) == []


@pytest.mark.parametrize(("capability", "level"), [("5.2", "warn"), ("6.0", "ok")])
def test_a_card_without_concurrent_managed_access_has_no_bulk_moves(
    tmp_path: Path, capability: str, level: str
) -> None:
    card = SimGpu().with_values(directory=str(tmp_path), gpus=1, compute_capability=capability)
    driver, device = found(checks.check_driver, machine(tmp_path, **card.environment({})))
    assert (driver.level, device.level) == ("ok", level)
    assert ("no bulk moves" in device.remedy) == (level == "warn")


def test_mig_instances_and_whose_figure_of_memory_counts_are_named(tmp_path: Path, nvshare: Front) -> None:
    """As on a MIG instance whose NVML answers Not Supported."""
    card = SimGpu().with_values(directory=str(tmp_path), gpus=1, mig=1, nvml_memory=0)
    texts = [one["text"] for one in json.loads(nvshare("doctor", "--json", **card.environment({})).stdout)["findings"]]
    assert any("is a MIG instance: nvshare treats it as a card" in text for text in texts)
    assert any("NVML does not report its memory; nvshare plans with what CUDA tells" in text for text in texts)


def test_the_link_of_a_gpu_is_named_if_nvml_reports_it(tmp_path: Path, nvshare: Front) -> None:
    said = []
    for link in ("4x8", "0"):
        card = SimGpu().with_values(directory=str(tmp_path), gpus=1, nvml_link=link)
        findings = json.loads(nvshare("doctor", "--json", **card.environment({})).stdout)["findings"]
        said += [one["text"].partition(": ")[2] for one in findings if one["text"].startswith("GPU-")]
    assert said == ["Simulated GPU, 16.00 GiB, PCIe 4 x8", "Simulated GPU, 16.00 GiB"]


def test_without_a_scheduler_a_private_one_is_promised(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    findings = found(check_scheduler, machine(tmp_path))
    assert [finding.level for finding in findings] == ["info", "ok"]


def test_a_scheduler_whose_operator_socket_is_shut_is_still_fine(runtime: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(runtime / "scheduler.sock"))
        listening.listen()
        findings = found(check_scheduler, machine(runtime))
    assert [finding.level for finding in findings] == ["ok", "info"]


def test_a_setting_that_prevents_eviction_is_pointed_out(tmp_path: Path) -> None:
    (finding,) = found(checks.check_environment, machine(tmp_path, TF_GPU_ALLOCATOR="cuda_malloc_async"))
    assert (finding.level, finding.remedy) == ("warn", "set TF_GPU_ALLOCATOR=")


@pytest.mark.parametrize(("swappable", "unswappable", "count"), [(0, 3, 1), (4, 3, 0), (0, 1, 0)])
def test_a_client_most_of_whose_memory_cannot_be_evicted_is_named(swappable: int, unswappable: int, count: int) -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.GpuFound(GPU, 16 * GIB, 0, "card"))
    node.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "train.py", (Claim(GPU, 16 * GIB),), pid=1))
    memory = Memory(swappable=swappable * GIB, unswappable=unswappable * GIB)
    node.handle(1, ev.MemoryChanged(1, GPU, memory))
    (client,) = snapshot(node, 2).clients
    findings = list(check_client(client))
    assert len(findings) == count
    assert all("train.py" in finding.text and "cannot be evicted" in finding.text for finding in findings)


@pytest.mark.parametrize(
    ("maps", "environment", "remedy"),
    [
        ("libcuda.so.1", "", "it does not load the library; if it should share, start it with `nvshare run`"),
        ("libnvshare.so", "NVSHARE_DISABLE=1", "it has NVSHARE_DISABLE; if it should share, start it without"),
        (
            "libnvshare.so",
            "NVSHARE_SOCKET=/other",
            "it uses another scheduler, at /other; programs that share a GPU must use the same one",
        ),
        (
            "libnvshare.so",
            "HOME=/\0NVSHARE_SOCKET=/ours",
            "it loads the library and is not connected: see its standard error, and the scheduler's log",
        ),
        (None, "", "if it should share, start it with `nvshare run`"),
    ],
)
def test_a_program_that_uses_a_gpu_and_is_no_client_is_named_with_the_reason(
    tmp_path: Path, maps: str | None, environment: str, remedy: str
) -> None:
    process = tmp_path / "proc" / "77"
    process.mkdir(parents=True)
    (process / "comm").write_bytes(b"train.py\xff\n")
    (process / "environ").write_text(environment)
    if maps is not None:
        (process / "maps").write_text(f"7f00-7f01 r-xp 0 0:0 1 /usr/lib/{maps}\n")
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.GpuFound(GPU, 16 * GIB, 3, "card"))
    node.handle(0, ev.MemoryMeasured(GPU, GIB, foreign_pids=(77,)))
    (finding,) = check_unshared(snapshot(node, 1), "/ours", tmp_path)
    said = "GPU 3: process 77 (train.py\ufffd) uses it without turns and limits"
    assert (finding.level, finding.text) == ("warn", said)
    assert finding.remedy == remedy


def test_a_client_that_does_not_move_its_memory_is_named_with_the_reason() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "train.py", (Claim(GPU, 16 * GIB),), pid=1))
    node.handle(1, ev.MoverReported(1, GPU, "NVSHARE_PREFETCH is off"))
    (client,) = snapshot(node, 2).clients
    (finding,) = check_client(client)
    assert (finding.level, finding.text) == ("info", "train.py (run 1): no bulk moves: NVSHARE_PREFETCH is off")


def test_a_client_whose_gpu_memory_the_host_cannot_take_is_named_with_what_is_missing() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "run/1", "run 1", "train.py", (Claim(GPU, 16 * GIB),), pid=1))
    node.handle(1, ev.LockRequested(1, GPU, Memory(12 * GIB)))
    node.handle(2, ev.HostMemoryMeasured((HostRoom(1, GPU, 3 * GIB),)))
    (client,) = snapshot(node, 3).clients
    (finding,) = check_client(client)
    assert (finding.level, finding.text) == (
        "warn",
        "the host has no room for 9.00 GiB of GPU memory of train.py (run 1)",
    )
    assert "raise its memory limit by that much" in finding.remedy
