"""Is this machine ready? Each check looks at one thing and says ok, warn or fail, with the remedy.

A check never raises for what it finds: a missing file, a driver in trouble and a socket that may not be opened are all
findings. `CheckedMachine` says where to look, so that tests can show it any machine."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

from nvshare.cli.doctor.finding import Finding
from nvshare.cli.doctor.machine import CheckedMachine
from nvshare.cli.doctor.scheduler import check_scheduler
from nvshare.cli.errors import CommandError
from nvshare.cli.run.native_files import library
from nvshare.framework_settings import evictable_setting, unswappable_settings
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.printable import last_line
from nvshare.quantity import amount

TIMEOUT_S = 30


Check = Callable[[CheckedMachine], Iterator[Finding]]


def check_library(machine: CheckedMachine) -> Iterator[Finding]:
    """The library exists, and the dynamic linker loads it: right architecture, right glibc."""
    try:
        path = library()
    except CommandError as error:
        yield Finding("fail", str(error))
        return
    environment = {**machine.environment, "LD_PRELOAD": str(path), "NVSHARE_DISABLE": "1"}
    command = [sys.executable, "-c", "pass"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)  # noqa: S603
    if result.returncode or "cannot be preloaded" in result.stderr:
        yield Finding(
            "fail",
            f"{path} cannot be preloaded: {last_line(result.stderr) or f'exit code {result.returncode}'}",
            "install the package built for this machine and its glibc, or build it here: make native",
        )
    else:
        yield Finding("ok", f"library {path}, {os.confstr('CS_GNU_LIBC_VERSION') or 'glibc unknown'}")


def check_environment(machine: CheckedMachine) -> Iterator[Finding]:
    """Variables that prevent sharing."""
    if machine.environment.get("NVSHARE_DISABLE", "0") not in ("", "0"):
        yield Finding("warn", "NVSHARE_DISABLE is set: programs started here do not share", "unset NVSHARE_DISABLE")
    if machine.environment.get("NVSHARE_MEMORY_MODE") == "native":
        yield Finding(
            "info",
            "NVSHARE_MEMORY_MODE=native: no bulk moves; memory of programs started here stays on the card",
        )
    for setting in unswappable_settings(machine.environment):
        yield Finding(
            "warn", f"{setting}: memory of programs started here cannot be evicted", f"set {evictable_setting(setting)}"
        )
    if machine.environment.get("NVSHARE_PREFETCH", "1") in ("", "0", "false", "no", "off"):
        yield Finding(
            "info", "NVSHARE_PREFETCH is off: no bulk moves; page faults move memory of programs started here"
        )


def check_driver(machine: CheckedMachine) -> Iterator[Finding]:
    """The CUDA driver works and supports what nvshare needs: managed memory with page faults."""
    command = [sys.executable, "-P", "-m", "nvshare.cli.doctor.driver_probe"]
    environment = {**machine.environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("LD_PRELOAD", None)
    try:
        result = subprocess.run(  # noqa: S603
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        answer = json.loads(result.stdout)
    except subprocess.TimeoutExpired:
        yield Finding(
            "fail", f"the CUDA driver does not answer within {TIMEOUT_S} s", "see dmesg; reset the GPU or reboot"
        )
        return
    except ValueError:
        yield Finding(
            "fail", f"a process that called the CUDA driver ended with exit code {result.returncode}", "see dmesg"
        )
        return
    if "error" in answer:
        yield Finding(
            "fail",
            str(answer["error"]),
            "install the NVIDIA driver, or give this container the GPU; without a GPU: nvshare doctor --sim-gpus 1",
        )
        return
    version = int(answer["version"])
    yield Finding("ok", f"CUDA driver {version // 1000}.{version % 1000 // 10}, {len(answer['devices'])} device(s)")
    for index, device in enumerate(answer["devices"]):
        yield _unified(index, bool(device["managed"]), bool(device["concurrent"]))


def _unified(index: int, managed: bool, concurrent: bool) -> Finding:
    if not managed:
        return Finding("fail", f"device {index} does not support unified memory", "nvshare cannot share this GPU")
    if not concurrent:
        return Finding(
            "warn",
            f"device {index} does not support paging on demand (older than Pascal, or Windows/WSL)",
            "no bulk moves; all programs together must fit into the card's memory; set limits",
        )
    return Finding("ok", f"device {index}: unified memory with paging on demand")


def check_nvml(machine: CheckedMachine) -> Iterator[Finding]:
    """The GPUs in NVML: compute mode, MIG, memory compared with the host's."""
    try:
        with Nvml() as nvml:
            gpus = nvml.discover()
            for gpu in gpus:
                link = "" if gpu.link is None else f", {gpu.link}"
                yield Finding("ok", f"{gpu.uuid}: {gpu.name}, {amount(gpu.total_bytes)}{link}")
                if gpu.shares_host_memory:
                    yield Finding(
                        "info",
                        f"{gpu.uuid}: NVML does not report its memory; nvshare plans with what CUDA tells the programs"
                        " on it, and until one runs with the memory of the machine",
                    )
                if nvml.is_exclusive(gpu.uuid):
                    yield Finding(
                        "fail",
                        f"{gpu.uuid} is in exclusive compute mode: a second program cannot start",
                        f"nvidia-smi -i {gpu.uuid} -c DEFAULT",
                    )
                if gpu.uuid.startswith("MIG-"):
                    yield Finding("info", f"{gpu.uuid} is a MIG instance: nvshare treats it as a card")
    except (NvmlUnavailableError, GpuLostError) as error:
        yield Finding("warn", str(error), "without NVML the scheduler cannot detect programs that do not share")
        return
    host = _host_memory(machine)
    most = sum(gpu.total_bytes for gpu in gpus)
    if host and most > host:
        yield Finding(
            "warn",
            f"the host has {amount(host)} of memory, the GPUs {amount(most)}",
            "evicted GPU memory needs host memory: add memory, or set limits",
        )


def check_device_files(machine: CheckedMachine) -> Iterator[Finding]:
    """The device files of a real driver; a simulated one has none."""
    if not machine.path("/proc/driver/nvidia/version").exists():
        return
    for name in ("nvidiactl", "nvidia-uvm"):
        path = machine.path(f"/dev/{name}")
        if not path.exists():
            remedy = "nvidia-modprobe -u -c 0" if name == "nvidia-uvm" else "load the driver: modprobe nvidia"
            yield Finding("fail", f"/dev/{name} is missing", remedy)
        elif not os.access(path, os.R_OK | os.W_OK):
            yield Finding(
                "fail", f"this user has no permission to open /dev/{name}", "add the user to the device's group"
            )
        else:
            yield Finding("ok", f"/dev/{name}")


def check_mps(machine: CheckedMachine) -> Iterator[Finding]:
    """NVIDIA MPS shares the GPU in one context, which does not work together with nvshare."""
    pipe = machine.environment.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's default
    if machine.path(f"{pipe}/control").exists():
        yield Finding(
            "warn",
            f"NVIDIA MPS is running ({pipe}): to the driver, all its clients are one process",
            "stop it: echo quit | nvidia-cuda-mps-control",
        )


def check_selinux(machine: CheckedMachine) -> Iterator[Finding]:
    path = machine.path("/sys/fs/selinux/enforce")
    if path.exists() and path.read_text().strip() == "1":
        yield Finding(
            "warn",
            "SELinux is enforcing: it may prevent containers from connecting to the scheduler's socket",
            "label /var/run/nvshare container_file_t: chcon -R -t container_file_t /var/run/nvshare",
        )


def check_kubernetes(machine: CheckedMachine) -> Iterator[Finding]:
    """Kubelet and the device plugin on this machine."""
    plugins = machine.path("/var/lib/kubelet/device-plugins")
    try:
        names = sorted(path.name for path in plugins.iterdir()) if plugins.is_dir() else []
    except PermissionError:
        yield Finding("info", "this machine has a kubelet; only root can read its plugins")
        return
    if not names:
        return
    if any(name.startswith("nvshare") for name in names):
        yield Finding("ok", "the nvshare device plugin is registered with the kubelet")
    else:
        yield Finding(
            "info",
            "this machine has a kubelet without the nvshare device plugin",
            "deploy nvshare to offer nvshare.com/gpu",
        )
    rivals = [name for name in names if name.startswith(("nvidia-gpu", "nvidia.sock"))]
    if rivals and len(rivals) < len(names):
        yield Finding(
            "warn",
            f"NVIDIA's device plugin offers the same GPUs as whole devices ({', '.join(rivals)})",
            "do not run it on nodes with nvshare: a pod with nvidia.com/gpu does not share",
        )


def _host_memory(machine: CheckedMachine) -> int:
    try:
        lines = machine.path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal:")), 0)


CHECKS: tuple[Check, ...] = (
    check_library, check_environment, check_driver, check_nvml, check_device_files, check_mps, check_selinux,
    check_scheduler, check_kubernetes,
)  # fmt: skip
