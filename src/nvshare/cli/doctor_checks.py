"""Is this machine ready? Each check looks at one thing and says ok, warn or fail, with the remedy.

A check never raises for what it finds: a missing file, a driver in trouble and a socket that may not be opened are all
findings. `Machine` says where to look, so that tests can show it any machine."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from nvshare import __version__, admin
from nvshare.cli import operator, private
from nvshare.cli.failure import FrontError
from nvshare.cli.library import library
from nvshare.config import DEFAULT_OPERATOR_SOCKET, DEFAULT_SOCKET
from nvshare.core.model import GIB
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.record import Record

Level = Literal["ok", "warn", "fail", "info"]
PATIENCE_S = 30


class Finding(Record, frozen=True):
    level: Level
    text: str
    remedy: str = ""


class Machine(Record, frozen=True):
    """Where to look. `root` stands for / in tests."""

    environment: dict[str, str]
    root: Path = Path("/")
    socket: str = DEFAULT_SOCKET
    operator_socket: str = DEFAULT_OPERATOR_SOCKET

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")


Check = Callable[[Machine], Iterator[Finding]]


def check_library(machine: Machine) -> Iterator[Finding]:
    """The library is there, and the dynamic linker takes it: right machine, right glibc."""
    try:
        path = library()
    except FrontError as error:
        yield Finding("fail", str(error))
        return
    environment = {**machine.environment, "LD_PRELOAD": str(path), "NVSHARE_DISABLE": "1"}
    command = [sys.executable, "-c", "pass"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)  # noqa: S603
    if result.returncode or "cannot be preloaded" in result.stderr:
        said = result.stderr.strip().splitlines()
        yield Finding(
            "fail",
            f"{path} cannot be preloaded: {said[-1] if said else f'exit code {result.returncode}'}",
            "install the package built for this machine and its glibc, or build it here: make native",
        )
    else:
        yield Finding("ok", f"library {path}, {os.confstr('CS_GNU_LIBC_VERSION') or 'glibc unknown'}")


def check_environment(machine: Machine) -> Iterator[Finding]:
    """Variables that would keep programs from sharing."""
    if machine.environment.get("NVSHARE_DISABLE", "0") not in ("", "0"):
        yield Finding("warn", "NVSHARE_DISABLE is set: programs started here do not share", "unset NVSHARE_DISABLE")
    if machine.environment.get("NVSHARE_MEMORY_MODE") == "native":
        yield Finding(
            "info", "NVSHARE_MEMORY_MODE=native: memory of programs started here cannot be moved out for others"
        )


def check_driver(machine: Machine) -> Iterator[Finding]:
    """The CUDA driver works and can do what nvshare builds on: memory that moves by itself."""
    command = [sys.executable, "-P", "-m", "nvshare.cli.doctor_probe"]
    environment = {**machine.environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("LD_PRELOAD", None)
    try:
        result = subprocess.run(  # noqa: S603
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        answer = json.loads(result.stdout)
    except subprocess.TimeoutExpired:
        yield Finding(
            "fail", f"the CUDA driver does not answer in {PATIENCE_S} s", "look at dmesg; reset the GPU or reboot"
        )
        return
    except ValueError:
        yield Finding("fail", f"the CUDA driver ended who asked it (exit code {result.returncode})", "look at dmesg")
        return
    if "error" in answer:
        yield Finding(
            "fail",
            str(answer["error"]),
            "install the NVIDIA driver, or give this container the GPU; without one: nvshare doctor --sim-gpus 1",
        )
        return
    version = int(answer["version"])
    yield Finding("ok", f"CUDA driver {version // 1000}.{version % 1000 // 10}, {len(answer['devices'])} device(s)")
    for index, device in enumerate(answer["devices"]):
        yield _unified(index, bool(device["managed"]), bool(device["concurrent"]))


def _unified(index: int, managed: bool, concurrent: bool) -> Finding:
    if not managed:
        return Finding("fail", f"device {index} has no unified memory", "nvshare cannot share this GPU")
    if not concurrent:
        return Finding(
            "warn",
            f"device {index} cannot page on demand (before Pascal, or under Windows/WSL)",
            "programs may not use more memory in all than the card has; give each a limit",
        )
    return Finding("ok", f"device {index}: unified memory with paging on demand")


def check_nvml(machine: Machine) -> Iterator[Finding]:
    """The cards as NVML knows them: exclusive mode, MIG, memory against the host's."""
    try:
        with Nvml() as nvml:
            gpus = nvml.discover()
            for gpu in gpus:
                yield Finding("ok", f"{gpu.uuid}: {gpu.name}, {gpu.total_bytes / GIB:.1f} GiB")
                if nvml.is_exclusive(gpu.uuid):
                    yield Finding(
                        "fail",
                        f"{gpu.uuid} is in an exclusive compute mode: a second program cannot start",
                        f"nvidia-smi -i {gpu.uuid} -c DEFAULT",
                    )
                if gpu.uuid.startswith("MIG-"):
                    yield Finding("info", f"{gpu.uuid} is a MIG instance: it is shared like a card of its own")
    except (NvmlUnavailableError, GpuLostError) as error:
        yield Finding("warn", str(error), "without NVML the scheduler cannot see programs that do not share")
        return
    host = _host_memory(machine)
    most = sum(gpu.total_bytes for gpu in gpus)
    if host and most > host:
        yield Finding(
            "warn",
            f"the host has {host / GIB:.1f} GiB of memory, the GPUs {most / GIB:.1f} GiB",
            "memory moved out of a GPU goes to the host: add memory, or limit the programs",
        )


def check_device_files(machine: Machine) -> Iterator[Finding]:
    """The device files of a real driver; a simulated one has none."""
    if not machine.path("/proc/driver/nvidia/version").exists():
        return
    for name in ("nvidiactl", "nvidia-uvm"):
        path = machine.path(f"/dev/{name}")
        if not path.exists():
            remedy = "nvidia-modprobe -u -c 0" if name == "nvidia-uvm" else "load the driver: modprobe nvidia"
            yield Finding("fail", f"/dev/{name} is missing", remedy)
        elif not os.access(path, os.R_OK | os.W_OK):
            yield Finding("fail", f"/dev/{name} may not be opened by this user", "add the user to the device's group")
        else:
            yield Finding("ok", f"/dev/{name}")


def check_mps(machine: Machine) -> Iterator[Finding]:
    """NVIDIA's MPS would share the GPU by itself, in one context."""
    pipe = machine.environment.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's default
    if machine.path(f"{pipe}/control").exists():
        yield Finding(
            "warn",
            f"NVIDIA MPS runs ({pipe}): its clients' memory is one process to the driver",
            "end it: echo quit | nvidia-cuda-mps-control",
        )


def check_selinux(machine: Machine) -> Iterator[Finding]:
    path = machine.path("/sys/fs/selinux/enforce")
    if path.exists() and path.read_text().strip() == "1":
        yield Finding(
            "warn",
            "SELinux is enforcing: containers may not connect to the scheduler's socket",
            "label /var/run/nvshare container_file_t: chcon -R -t container_file_t /var/run/nvshare",
        )


def check_scheduler(machine: Machine) -> Iterator[Finding]:
    """The machine's scheduler, or that programs will have a private one."""
    try:
        if not private.answers(machine.socket):
            yield Finding("info", f"no scheduler at {machine.socket}: `nvshare run` starts a private one")
            yield from _check_private()
            return
    except FrontError as error:
        yield Finding("fail", str(error), "the socket's directory must be open to all: chmod 755 its directory")
        return
    yield Finding("ok", f"a scheduler listens at {machine.socket}")
    yield from _check_operator(machine)


def _check_private() -> Iterator[Finding]:
    try:
        yield Finding("ok", f"a private scheduler can live in {private.runtime_directory()}")
    except FrontError as error:
        yield Finding("fail", str(error))


def _check_operator(machine: Machine) -> Iterator[Finding]:
    path = Path(machine.operator_socket)
    try:
        answer = operator.ask(str(path), admin.GetStatus())
    except operator.UnreachableError as error:
        yield Finding("info", f"the operator's socket cannot be asked: {error}")
        return
    except (operator.RefusedError, admin.AdminError) as error:
        yield Finding("warn", str(error), "install the same version of nvshare everywhere on this machine")
        return
    assert isinstance(answer, admin.Status)
    if answer.version != __version__:
        yield Finding(
            "warn", f"the scheduler is nvshare {answer.version}, this is {__version__}", "restart nvshare-scheduler"
        )
    else:
        yield Finding("ok", f"the scheduler is nvshare {answer.version}, {len(answer.node.clients)} client(s)")
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    if mode & 0o077:
        yield Finding("fail", f"{path.parent} is open to others (mode {mode:o})", f"chmod 700 {path.parent}")


def check_kubernetes(machine: Machine) -> Iterator[Finding]:
    """What a kubelet on this machine would see."""
    plugins = machine.path("/var/lib/kubelet/device-plugins")
    try:
        names = sorted(path.name for path in plugins.iterdir()) if plugins.is_dir() else []
    except PermissionError:
        yield Finding("info", "a kubelet is here; its plugins can only be looked at by root")
        return
    if not names:
        return
    if any(name.startswith("nvshare") for name in names):
        yield Finding("ok", "the nvshare device plugin is registered with the kubelet")
    else:
        yield Finding(
            "info", "a kubelet is here, without the nvshare device plugin", "deploy nvshare to offer nvshare.com/gpu"
        )
    rivals = [name for name in names if name.startswith(("nvidia-gpu", "nvidia.sock"))]
    if rivals and len(rivals) < len(names):
        yield Finding(
            "warn",
            f"NVIDIA's device plugin offers the same GPUs whole ({', '.join(rivals)})",
            "keep it off nodes where nvshare runs: a pod with nvidia.com/gpu does not share",
        )


def _host_memory(machine: Machine) -> int:
    try:
        lines = machine.path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemTotal:")), 0)


CHECKS: tuple[Check, ...] = (
    check_library, check_environment, check_driver, check_nvml, check_device_files, check_mps, check_selinux,
    check_scheduler, check_kubernetes,
)  # fmt: skip
