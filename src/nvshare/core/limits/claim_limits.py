"""What the ResourceClaims of a pod allow it on each GPU.

A claim is prepared on the node before the first of its pods starts; pods name it by its label. Pods whose claims on a
GPU overlap share one limit there (core.limits.claim_sharing)."""

from collections.abc import Mapping

from nvshare.core.events import ClaimPrepared


class ClaimLimits:
    """The claims of one group. `prepared` are the node's, by label."""

    __slots__ = ("_is_binding", "_prepared", "names")

    def __init__(self, prepared: Mapping[str, ClaimPrepared], *, is_binding: bool) -> None:
        self._prepared = prepared
        self._is_binding = is_binding
        self.names: tuple[str, ...] = ()

    def on(self, gpu: str) -> int | None:
        """How many bytes; None: it has no claim there."""
        return sum(self.parts_on(gpu).values()) or None

    def parts_on(self, gpu: str) -> dict[str, int]:
        """Its claims that have a part of the GPU, and how many bytes each."""
        return {claim.label: claim.limits[gpu] for claim in self._settings() if gpu in claim.limits}

    def by_gpu(self) -> dict[str, int]:
        """How many bytes on each GPU on which it has a claim."""
        gpus = dict.fromkeys(gpu for claim in self._settings() for gpu in claim.limits)
        return {gpu: self.on(gpu) or 0 for gpu in gpus}

    @property
    def most(self) -> int | None:
        """On the GPU on which it is allowed most; None: it has no claim."""
        return max(self.by_gpu().values(), default=None)

    def lower_than(self, limit: int) -> dict[str, int]:
        """What it may have on the GPUs on which this limit is too high."""
        return {gpu: claimed for gpu, claimed in self.by_gpu().items() if self.forbids(limit, claimed)}

    def forbids(self, limit: int, claimed: int) -> bool:
        """Whether a limit from another source is too high; 0 is no limit at all."""
        return self._is_binding and not 0 < limit <= claimed

    def forbids_everywhere(self, limit: int) -> bool:
        """True if a limit is too high on each GPU on which it has a claim."""
        lower = self.lower_than(limit)
        return bool(lower) and len(lower) == len(self.by_gpu())

    @property
    def priority(self) -> int | None:
        return next((it.priority for it in self._settings() if it.priority is not None), None)

    @property
    def weight(self) -> int | None:
        return next((it.weight for it in self._settings() if it.weight is not None), None)

    def core_limit_on(self, gpu: str) -> int | None:
        """Percent of the GPU's time, of all its claims there together; None: it has none there, or one has no limit."""
        percents = [it.core_limits.get(gpu) for it in self._settings() if gpu in it.limits]
        return sum(filter(None, percents)) if percents and all(percents) else None

    def lower_core_limits(self, percent: int) -> dict[str, int]:
        """What it may have on the GPUs on which this core limit is too high."""
        claimed = {gpu: self.core_limit_on(gpu) for gpu in self.by_gpu()}
        return {gpu: most for gpu, most in claimed.items() if most is not None and self.forbids(percent, most)}

    def bounded_core_limit(self, gpu: str, percent: int | None) -> int | None:
        """What counts if a source names so many percent; None: no source names a limit."""
        claimed = self.core_limit_on(gpu)
        if claimed is not None and (percent is None or self.forbids(percent, claimed)):
            return claimed
        return percent

    def _settings(self) -> list[ClaimPrepared]:
        return [self._prepared[name] for name in self.names if name in self._prepared]
