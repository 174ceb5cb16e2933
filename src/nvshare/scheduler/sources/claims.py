"""The ResourceClaims that the DRA driver has prepared on this node, from their files in the operator's directory.

They are read before clients can connect: a process of a pod with a claim is never without its limit."""

from collections.abc import Callable
from pathlib import Path

from nvshare import claim_file
from nvshare.claim_file import PreparedClaim
from nvshare.core.events import ClaimEnded, ClaimPrepared
from nvshare.inotify import Inotify
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.in_range import CORE_LIMIT, LIMIT, PRIORITY, WEIGHT, all_in_range, in_range
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.regular_file import read_regular

Retried = Callable[[Callable[[], None]], Callable[[], None]]


class Claims:
    """Posts what has changed in the directory."""

    def __init__(self, engine: Engine, operator_dir: Path, retried: Retried = lambda call: call) -> None:
        """`retried` makes a callback that is tried again if it fails."""
        self._engine = engine
        self._retried = retried
        self._directory = operator_dir / claim_file.DIRECTORY
        self._inotify: Inotify | None = None
        self._files: dict[str, bytes] = {}
        """What was in each file when it was last read."""
        self._prepared: dict[str, PreparedClaim] = {}

    def start(self) -> None:
        """Read, and go on reading. Raises OSError."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._inotify = Inotify(self._retried(self.read))
        self._inotify.watch(self._directory)
        self.read()

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()

    @property
    def labels(self) -> set[str]:
        """The claims that are prepared now."""
        return {claim.label for claim in self._prepared.values()}

    def read(self) -> None:
        """Compare the files with what is known."""
        found = self._contents()
        for name in [name for name in self._prepared if name not in found]:
            self._engine.post(ClaimEnded(self._prepared.pop(name).uid))
        for name, content in found.items():
            if self._files.get(name) != content:
                self._changed(name, content)
        self._files = found

    def _changed(self, name: str, content: bytes) -> None:
        try:
            claim = claim_file.decode(content)
        except (ValueError, RecursionError) as error:
            log.warning(f"{self._directory / name} cannot be read: {error}")
            return
        self._prepared[name] = claim
        where = str(self._directory / name)
        self._engine.post(
            ClaimPrepared(
                uid=claim.uid,
                label=claim.label,
                limits=all_in_range(claim.limits, LIMIT, where),
                priority=in_range(claim.priority, PRIORITY, where),
                weight=in_range(claim.weight, WEIGHT, where),
                core_limits=all_in_range(claim.core_limits or {}, CORE_LIMIT, where),
            )
        )

    def _contents(self) -> dict[str, bytes]:
        found = {}
        for path in sorted(self._directory.glob(f"*{claim_file.SUFFIX}")):
            try:
                found[path.name] = read_regular(path)
            except FileNotFoundError:
                continue  # removed meanwhile
            except OSError as error:
                log.warning(f"{path} cannot be read: {error.strerror}")
        return found
