"""Which GPUs are healthy. Pure: reports of NVML come in, the state comes out.

A GPU that does not answer is unhealthy until it answers again. An XID error makes it unhealthy, unless a program caused
the error itself. It is healthy again when the driver says that no reset is needed, or, if the driver is too old to
say, after it has answered for ten minutes without another error."""

from collections.abc import Iterable

# Errors of the program, not of the GPU: graphics engine exception, page fault, stopped processing, preemptive cleanup,
# video processor exception, context switch time-out.
PROGRAM_XIDS = frozenset({13, 31, 43, 45, 68, 109})
_QUIET_S = 600.0


class Health:
    """The health of a fixed set of GPUs."""

    def __init__(self, gpus: Iterable[str], *, ignored_xids: Iterable[int] = ()) -> None:
        self._reasons: dict[str, str] = dict.fromkeys(gpus, "")
        self._error_at: dict[str, float] = {}
        self._ignored = PROGRAM_XIDS | set(ignored_xids)

    def unhealthy(self) -> dict[str, str]:
        """The unhealthy GPUs, each with the reason."""
        return {gpu: reason for gpu, reason in self._reasons.items() if reason}

    def xid(self, gpu: str | None, code: int, now: float) -> bool:
        """The driver reported an error; None means that it did not say of which GPU. True if the health changed."""
        if code in self._ignored:
            return False
        affected = [gpu] if gpu in self._reasons else list(self._reasons) if gpu is None else []
        before = self.unhealthy()
        for name in affected:
            assert name is not None
            self._error_at[name] = now
            self._reasons[name] = f"XID error {code}"
        return self.unhealthy() != before

    def probed(self, gpu: str, now: float, *, answers: bool, needs_recovery: bool | None) -> bool:
        """A GPU was probed; `needs_recovery` is None if the driver does not tell. True if the health changed."""
        before = self._reasons[gpu]
        error_at = self._error_at.get(gpu)
        if not answers:
            self._reasons[gpu] = "does not answer"
        elif needs_recovery:
            self._reasons[gpu] = before or "the driver requests a reset"
        elif error_at is None or needs_recovery is False or now - error_at >= _QUIET_S:
            self._reasons[gpu] = ""
            self._error_at.pop(gpu, None)
        elif before == "does not answer":
            self._reasons[gpu] = "answers again after an XID error"
        return self._reasons[gpu] != before
