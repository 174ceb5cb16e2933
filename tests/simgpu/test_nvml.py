"""The simulated NVML through nvidia-ml-py, the binding that everybody uses."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from nvshare.simgpu.config import library_directory
from nvshare.simgpu.events import RECOVERED, inject_xid
from simgpu.node import MakeNode, Node, Sanitized

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
    import ctypes, sys
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0
    print("ready", flush=True)
    sys.stdin.read()
"""


def ready(child: "subprocess.Popen[str]") -> None:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n", child.stderr and child.stderr.read()


def end(child: "subprocess.Popen[str]") -> None:
    child.communicate()


def uuids(node: Node) -> list[str]:
    found: list[str] = json.loads(
        node.python("""
            import json
            from pynvml import *
            nvmlInit()
            print(json.dumps([nvmlDeviceGetUUID(nvmlDeviceGetHandleByIndex(i)) for i in range(nvmlDeviceGetCount())]))
        """)
    )
    return found


def test_every_function_answers_as_nvml_does(node: Node, checks: Path) -> None:
    node.run(checks / "nvml_calls")


def test_every_function_is_clean_under_the_sanitizers(node: Node, sanitized: Sanitized) -> None:
    sanitized.run(node, "nvml_calls")


def test_every_function_is_called_by_the_check() -> None:
    library = library_directory() / "libnvidia-ml.so.1"
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[-1] for line in table.splitlines()}
    calls = (ROOT / "tests" / "native" / "nvml_calls.c").read_text().split("static nvmlDevice_t first", 1)[1]
    assert sorted(name for name in exported if not re.search(rf"\b{name}\b", calls)) == []


def test_devices_are_found_by_index_uuid_and_bus(node: Node) -> None:
    node.python("""
        from pynvml import *
        nvmlInit()
        assert nvmlDeviceGetCount() == 2
        for i in range(2):
            handle = nvmlDeviceGetHandleByIndex(i)
            uuid, pci = nvmlDeviceGetUUID(handle), nvmlDeviceGetPciInfo(handle)
            assert uuid.startswith("GPU-") and len(uuid) == 40, uuid
            assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(uuid)) == i
            assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(pci.busId)) == i
            assert nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId(pci.busIdLegacy)) == i
            assert nvmlDeviceGetMinorNumber(handle) == i
        for wrong in (lambda: nvmlDeviceGetHandleByIndex(2), lambda: nvmlDeviceGetHandleByUUID("GPU-no")):
            try:
                wrong()
            except NVMLError:
                continue
            raise AssertionError("found a device that is not there")
        nvmlShutdown()
        try:
            nvmlDeviceGetCount()
        except NVMLError_Uninitialized:
            pass
        else:
            raise AssertionError("answered after shutdown")
    """)


def test_the_card_describes_itself(make_node: MakeNode) -> None:
    make_node(gpus=1, memory="24Gi", name="NVIDIA Test 9000", compute_capability="9.0").python("""
        from pynvml import *
        nvmlInit()
        card = nvmlDeviceGetHandleByIndex(0)
        assert nvmlDeviceGetName(card) == "NVIDIA Test 9000"
        assert tuple(nvmlDeviceGetCudaComputeCapability(card)) == (9, 0)
        assert nvmlDeviceGetArchitecture(card) == NVML_DEVICE_ARCH_HOPPER
        assert list(nvmlDeviceGetMigMode(card)) == [0, 0]
        assert nvmlDeviceGetMaxMigDeviceCount(card) == 0
        assert not nvmlDeviceIsMigDeviceHandle(card)
        assert nvmlDeviceGetComputeMode(card) == NVML_COMPUTEMODE_DEFAULT
        assert nvmlDeviceGetPersistenceMode(card) == 1
        assert nvmlDeviceGetBrand(card) == NVML_BRAND_NVIDIA
        assert nvmlDeviceGetBAR1MemoryInfo(card).bar1Total > 0
        assert nvmlDeviceGetMemoryInfo(card).total == 24 << 30
        v2 = nvmlDeviceGetMemoryInfo(card, nvmlMemory_v2)
        assert (v2.total, v2.used + v2.free + v2.reserved) == (24 << 30, 24 << 30)
        assert nvmlSystemGetDriverVersion() and nvmlSystemGetNVMLVersion()
        assert nvmlSystemGetCudaDriverVersion() >= 12000
        assert nvmlDeviceGetUtilizationRates(card).gpu == 0
        assert nvmlDeviceGetComputeRunningProcesses(card) == []
        assert nvmlDeviceGetGraphicsRunningProcesses(card) == []
        for missing in (nvmlDeviceGetFanSpeed, nvmlDeviceGetPowerUsage, nvmlDeviceGetEccMode):
            try:
                missing(card)
            except NVMLError_NotSupported:
                continue
            raise AssertionError(missing)
        try:
            nvmlDeviceGetMigDeviceHandleByIndex(card, 0)
        except NVMLError_NotFound as error:
            assert str(error) == "Not Found"
        else:
            raise AssertionError("a MIG device on a card without MIG")
    """)


def test_memory_and_processes_are_those_of_the_programs_on_the_card(node: Node) -> None:
    watcher = """
        from pynvml import *
        nvmlInit()
        for i in range(2):
            card = nvmlDeviceGetHandleByIndex(i)
            users = [[p.pid, p.usedGpuMemory] for p in nvmlDeviceGetComputeRunningProcesses(card)]
            print(nvmlDeviceGetMemoryInfo(card).used, users)
            if users:
                assert "python" in nvmlSystemGetProcessName(users[0][0])
    """
    child = node.start_python(HOLDER)
    ready(child)
    first, second = node.python(watcher).splitlines()
    used = int(first.split()[0])
    assert used >= 1 << 30
    assert first == f"{used} [[{child.pid}, {used}]]"
    assert second == "0 []"
    child.kill()
    child.wait()
    assert node.python(watcher).splitlines() == ["0 []", "0 []"]


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_process_in_another_pid_namespace_is_listed_by_the_readers_pid(node: Node) -> None:
    child = node.start("unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", textwrap.dedent(HOLDER))
    ready(child)
    pid = node.python("""
        from pynvml import *
        nvmlInit()
        (user,) = nvmlDeviceGetComputeRunningProcesses(nvmlDeviceGetHandleByIndex(0))
        print(user.pid)
    """)
    parent = re.search(r"^PPid:\s+(\d+)$", Path(f"/proc/{pid.strip()}/status").read_text(), re.MULTILINE)
    assert parent is not None
    assert int(parent[1]) == child.pid
    end(child)


def test_a_working_card_shows_its_utilisation(make_node: MakeNode) -> None:
    node = make_node(gpus=1, trace=0)
    out = node.python("""
        import ctypes, os, time
        from pynvml import *
        nvmlInit()
        card = nvmlDeviceGetHandleByIndex(0)
        cuda = ctypes.CDLL("libcuda.so.1")
        context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuInit(0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        entry = b".visible .entry sim_spin_us(.param .u64 us) { ret; }\\n\\0"
        image = b".version 8.0\\n.target sm_80\\n.address_size 64\\n" + entry
        assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
        assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"sim_spin_us") == 0
        us = ctypes.c_uint64(60_000_000)
        params = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.pointer(us), ctypes.c_void_p))
        assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, params, None) == 0
        seen, deadline = 0, time.monotonic() + 55
        while seen < 90 and time.monotonic() < deadline:
            time.sleep(0.1)  # the figure is of the last whole second
            seen = nvmlDeviceGetUtilizationRates(card).gpu
        (sample,) = nvmlDeviceGetProcessUtilization(card, 0)
        assert sample.pid == os.getpid()
        assert 50 <= sample.smUtil <= 100, sample.smUtil
        print(seen, flush=True)
        os._exit(0)  # the kernel would go on for a minute
    """)
    assert 90 <= int(out) <= 100


def test_an_injected_xid_wakes_a_waiting_set_once(node: Node) -> None:
    card, other = uuids(node)
    waiter = node.start_python("""
        from pynvml import *
        nvmlInit()
        events = nvmlEventSetCreate()
        for i in range(2):
            assert nvmlDeviceGetSupportedEventTypes(nvmlDeviceGetHandleByIndex(i)) & nvmlEventTypeXidCriticalError
            nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(i), nvmlEventTypeXidCriticalError, events)
        print("ready", flush=True)
        for _ in range(2):
            event = nvmlEventSetWait(events, 60000)
            print(nvmlDeviceGetUUID(event.device), event.eventType, event.eventData, flush=True)
        try:
            nvmlEventSetWait(events, 20)
        except NVMLError_Timeout:
            print("nothing more", flush=True)
        nvmlEventSetFree(events)
    """)
    ready(waiter)
    assert waiter.stdout is not None
    inject_xid(card, 79, directory=node.directory)
    assert waiter.stdout.readline() == f"{card} 8 79\n"
    inject_xid(other, RECOVERED, directory=node.directory)  # not an event
    inject_xid(other, 31, directory=node.directory)
    assert waiter.stdout.readline() == f"{other} 8 31\n"
    assert waiter.stdout.readline() == "nothing more\n"
    end(waiter)


def test_a_fatal_xid_asks_for_a_reset_until_the_card_has_recovered(node: Node) -> None:
    reader = node.start_python("""
        import sys
        from pynvml import *
        nvmlInit()
        card = nvmlDeviceGetHandleByIndex(0)
        print("ready", flush=True)
        for _ in sys.stdin:
            (value,) = nvmlDeviceGetFieldValues(card, [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
            print(value.nvmlReturn, value.value.uiVal, flush=True)
        (value,) = nvmlDeviceGetFieldValues(card, [NVML_FI_DEV_ECC_CURRENT])
        assert value.nvmlReturn == NVML_ERROR_NOT_SUPPORTED
    """)
    ready(reader)
    assert reader.stdin is not None
    assert reader.stdout is not None

    def action() -> str:
        assert reader.stdin is not None
        assert reader.stdout is not None
        print("?", file=reader.stdin, flush=True)
        return reader.stdout.readline().strip()

    (card, _) = uuids(node)
    said = [action()]
    for code in (31, 79, RECOVERED):
        inject_xid(card, code, directory=node.directory)
        said.append(action())
    assert said == ["0 0", "0 0", "0 1", "0 0"]
    reader.communicate()
    assert reader.returncode == 0


def test_a_forked_child_starts_nvml_again(node: Node) -> None:
    node.python("""
        import os
        from pynvml import *
        nvmlInit()
        child = os.fork()
        if child == 0:
            try:
                nvmlDeviceGetCount()
            except NVMLError_Uninitialized:
                nvmlInit()
                os._exit(0 if nvmlDeviceGetCount() == 2 else 2)
            os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        assert nvmlDeviceGetCount() == 2
    """)
