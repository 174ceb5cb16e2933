"""The calls to NVML that nvshare needs; the only file that imports nvidia-ml-py.

Failures are of three kinds: NVML cannot be used at all (`NvmlUnavailableError`), one GPU no longer answers
(`GpuLostError`), or one figure is not available on this card (None, not an error). Only `wait_xid` blocks; call it in a
thread of its own."""

import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import pynvml as raw

from nvshare.inventory.gpus import Gpu, Sample, Xid
from nvshare.inventory.pcie import Link, link

_LOST = (raw.NVML_ERROR_GPU_IS_LOST, raw.NVML_ERROR_RESET_REQUIRED, raw.NVML_ERROR_NOT_FOUND, raw.NVML_ERROR_UNKNOWN)
_PROCESS_LISTS = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")

_ARCHITECTURES = {
    getattr(raw, name): name.removeprefix("NVML_DEVICE_ARCH_").lower()
    for name in vars(raw)
    if name.startswith("NVML_DEVICE_ARCH_") and name != "NVML_DEVICE_ARCH_UNKNOWN"
}


class NvmlUnavailableError(RuntimeError):
    """NVML cannot be used; the text names the remedy."""


class GpuLostError(RuntimeError):
    """A GPU that was there no longer answers."""


class Nvml:
    """An open NVML. `with Nvml() as nvml: nvml.discover()`."""

    def __init__(self) -> None:
        try:
            raw.nvmlInit()
        except raw.NVMLError as error:
            raise NvmlUnavailableError(f"cannot use NVML ({_say(error)}); {_remedy(error)}") from error
        self._handles: dict[str, Any] = {}
        self._events: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close NVML; also if the driver has been unloaded meanwhile."""
        if self._events is not None:
            _ask_optional(raw.nvmlEventSetFree, self._events)
            self._events = None
        _ask_optional(raw.nvmlShutdown)

    def discover(self) -> tuple[Gpu, ...]:
        """Every GPU that answers, MIG instances instead of a card that is split into them."""
        return tuple(self._devices())

    def _devices(self) -> Iterator[Gpu]:
        for index in range(_ask(raw.nvmlDeviceGetCount)):
            card = _ask_optional(raw.nvmlDeviceGetHandleByIndex, index)
            if card is None:
                continue
            for handle in _instances(card) or [card]:
                gpu = _ask_optional(_describe, handle, index, card)
                if gpu is not None:
                    self._handles[gpu.uuid] = handle
                    yield gpu

    def sample(self, uuid: str) -> Sample:
        """The processes on the GPU and its memory. Raises GpuLostError."""
        handle = self._handle(uuid)
        memory = _ask(_memory, handle)
        processes: dict[int, int] = {}
        for name in _PROCESS_LISTS:
            for process in _ask_optional(getattr(raw, name), handle) or []:
                # A process may be on both lists with the same memory.
                processes[process.pid] = max(processes.get(process.pid, 0), process.usedGpuMemory or 0)
        used, total = (
            (sum(processes.values()), _machine_bytes()) if memory is None else (int(memory.used), int(memory.total))
        )
        return Sample(processes, used, total, utilization_percent=_utilization(handle))

    def computes(self, uuid: str) -> bool:
        """Whether a process computes on the GPU; a display does not."""
        return bool(_ask_optional(raw.nvmlDeviceGetComputeRunningProcesses, self._handle(uuid)))

    def driver_version(self) -> str:
        """Empty if the driver does not tell."""
        return _text(_ask_optional(raw.nvmlSystemGetDriverVersion) or "")

    def architecture(self, uuid: str) -> str:
        """`ampere`, `hopper` and so on; empty if the driver does not tell, or the card is newer than this program."""
        return str(_ARCHITECTURES.get(_ask_optional(raw.nvmlDeviceGetArchitecture, self._handle(uuid)), ""))

    def is_exclusive(self, uuid: str) -> bool | None:
        """Whether the compute mode allows only one process (or none); None if the card does not tell."""
        mode = _ask_optional(raw.nvmlDeviceGetComputeMode, self._handle(uuid))
        return None if mode is None else bool(mode != raw.NVML_COMPUTEMODE_DEFAULT)

    def needs_recovery(self, uuid: str) -> bool | None:
        """Whether the driver asks for a reset or reboot of this GPU; None if the driver is too old to tell."""
        values = _ask_optional(
            raw.nvmlDeviceGetFieldValues, self._handle(uuid), [raw.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
        )
        if not values or values[0].nvmlReturn != raw.NVML_SUCCESS:
            return None
        return bool(values[0].value.uiVal != raw.NVML_GPU_RECOVERY_ACTION_NONE)

    def watch_xids(self, uuids: tuple[str, ...]) -> tuple[str, ...]:
        """Ask the driver to report XID errors; the GPUs that cannot are returned."""
        if self._events is None:
            self._events = _ask_optional(raw.nvmlEventSetCreate)
        if self._events is None:
            return uuids
        return tuple(uuid for uuid in uuids if not self._register(uuid))

    def _register(self, uuid: str) -> bool:
        try:
            raw.nvmlDeviceRegisterEvents(self._handle(uuid), raw.nvmlEventTypeXidCriticalError, self._events)
        except (raw.NVMLError, GpuLostError):
            return False
        return True

    def wait_xid(self, timeout_ms: int) -> Xid | None:
        """The next XID error, or None after the time-out. Blocks: call it from a thread that does nothing else."""
        try:
            data = raw.nvmlEventSetWait_v2(self._events, timeout_ms)
        except raw.NVMLError as error:
            if error.value == raw.NVML_ERROR_TIMEOUT:
                return None
            raise GpuLostError(f"NVML's event wait failed: {_say(error)}") from error
        uuid = _ask_optional(raw.nvmlDeviceGetUUID, data.device)
        return Xid(uuid=None if uuid is None else _text(uuid), code=int(data.eventData))

    def _handle(self, uuid: str) -> Any:
        handle = self._handles.get(uuid)
        if handle is None:
            handle = self._handles[uuid] = _ask(raw.nvmlDeviceGetHandleByUUID, uuid.encode())
        return handle


def _describe(handle: Any, index: int, card: Any) -> Gpu:
    """A card, or an instance of it. The link is the card's: NVML does not tell that of an instance."""
    memory = _memory(handle)
    return Gpu(
        uuid=_text(raw.nvmlDeviceGetUUID(handle)),
        total_bytes=_machine_bytes() if memory is None else int(memory.total),
        index=index,
        name=_text(raw.nvmlDeviceGetName(handle)),
        shares_host_memory=memory is None,
        link=None if memory is None else _link(card),
    )


def _link(card: Any) -> Link | None:
    """The highest generation that card and slot have, because the present one drops while the card is idle, as it
    usually is when the scheduler starts. The present width, because that stays, and a riser or a bad contact leaves
    fewer lanes than card and slot have."""
    width = _ask_optional(raw.nvmlDeviceGetCurrPcieLinkWidth, card)
    if width is None:
        width = _ask_optional(raw.nvmlDeviceGetMaxPcieLinkWidth, card)
    return link(_ask_optional(raw.nvmlDeviceGetMaxPcieLinkGeneration, card), width)


def _memory(handle: Any) -> Any:
    """The GPU's memory; None if it has none of its own, as a GPU that shares the memory of the machine (GB10)."""
    try:
        return raw.nvmlDeviceGetMemoryInfo(handle)
    except raw.NVMLError as error:
        if error.value != raw.NVML_ERROR_NOT_SUPPORTED:
            raise
        return None


def _utilization(handle: Any) -> int | None:
    """In percent; None if this card does not report it, as in MIG mode."""
    rates = _ask_optional(raw.nvmlDeviceGetUtilizationRates, handle)
    return None if rates is None else min(100, int(rates.gpu))


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _instances(card: Any) -> list[Any]:
    """The MIG instances of a card; empty when it is whole."""
    mode = _ask_optional(raw.nvmlDeviceGetMigMode, card)
    if not mode or mode[0] != raw.NVML_DEVICE_MIG_ENABLE:
        return []
    count = _ask_optional(raw.nvmlDeviceGetMaxMigDeviceCount, card) or 0
    found = [_ask_optional(raw.nvmlDeviceGetMigDeviceHandleByIndex, card, at) for at in range(count)]
    return [handle for handle in found if handle is not None]


def _ask(call: Callable[..., Any], *args: Any) -> Any:
    """The driver's answer; raises GpuLostError or NvmlUnavailableError."""
    try:
        return call(*args)
    except raw.NVMLError as error:
        if error.value in _LOST:
            raise GpuLostError(_say(error)) from error
        raise NvmlUnavailableError(f"NVML failed: {_say(error)}") from error


def _ask_optional(call: Callable[..., Any], *args: Any) -> Any:
    """The driver's answer, or None if this card or driver does not support the call."""
    try:
        return call(*args)
    except raw.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _say(error: Any) -> str:
    try:
        return str(error)
    except raw.NVMLError:  # the text itself comes from the driver's library, which may be missing
        return f"error {error.value}"


def _remedy(error: Any) -> str:
    if error.value == raw.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "libnvidia-ml.so.1 was not found: is the NVIDIA driver installed and visible in this container?"
    if error.value == raw.NVML_ERROR_NO_PERMISSION:
        return "this user has no permission to open the device files of the GPU"
    return "does nvidia-smi work on this machine?"
