"""The prepared claims of this node, as files: `claims/<uid>.json` for the scheduler, a CDI file for the runtime.

The files are the state, and nothing is kept in memory: in a rolling update two drivers prepare and unprepare the same
claims. Each file is written beside its place and renamed. The limit is there before a container can start with the
claim, and goes after the CDI file: no container has a claim without a limit."""

import contextlib
import logging
from collections import Counter
from pathlib import Path

from nvshare import claim_file
from nvshare.claim_file import PreparedClaim
from nvshare.dra import cdi

log = logging.getLogger(__name__)

_FRESH = ".new"


class PreparedClaims:
    """What is prepared now, by this driver or by another instance of it."""

    def __init__(self, claims_dir: Path, cdi_dir: Path, options: cdi.CdiOptions) -> None:
        self._claims_dir = claims_dir
        self._cdi_dir = cdi_dir
        self._options = options

    def load(self) -> None:
        """Take over what an earlier driver prepared, and remove what it left half done. Raises OSError."""
        self._claims_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._cdi_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Before the claims: a claim's own file comes first, so one that another instance prepares meanwhile is found.
        cdi_files = list(self._cdi_dir.iterdir())
        prepared = self.all()
        for path in cdi_files:
            uid = cdi.uid_of(path.name.removesuffix(_FRESH))
            if uid is not None and (path.suffix == _FRESH or uid not in prepared):
                path.unlink(missing_ok=True)
        for path in list(self._claims_dir.iterdir()):
            if path.suffix == _FRESH:
                path.unlink(missing_ok=True)
        for claim in prepared.values():
            self.write_cdi(claim)  # the settings of the driver may have changed

    def all(self) -> dict[str, PreparedClaim]:
        """By UID. Raises OSError."""
        paths = sorted(path for path in self._claims_dir.iterdir() if path.suffix == claim_file.SUFFIX)
        found = [claim for path in paths if (claim := _read(path)) is not None]
        return {claim.uid: claim for claim in found}

    def find(self, uid: str) -> PreparedClaim | None:
        """None if the claim is not prepared. Raises OSError, and ValueError if that is no UID."""
        return _read(self._claims_dir / claim_file.file_name(uid))

    def add(self, claim: PreparedClaim) -> None:
        """Prepare a claim. Raises OSError; then nothing is prepared."""
        name = claim_file.file_name(claim.uid)
        try:
            _write(self._claims_dir / name, claim_file.encode(claim), 0o600)
            self.write_cdi(claim)
        except OSError:
            self.remove(claim.uid)
            raise

    def write_cdi(self, claim: PreparedClaim) -> None:
        """Write a prepared claim's file for the runtime, unless it is there. Raises OSError."""
        _write(self._cdi_dir / cdi.file_name(claim.uid), cdi.content(claim, self._options), 0o644)

    def remove(self, uid: str) -> None:
        """Undo it; also for a claim that was never prepared. Raises OSError."""
        name = claim_file.file_name(uid)
        (self._cdi_dir / cdi.file_name(uid)).unlink(missing_ok=True)
        (self._claims_dir / name).unlink(missing_ok=True)

    def consumed_bytes(self) -> dict[str, int]:
        """By UUID of the GPU: what the claims take of its capacity."""
        total: Counter[str] = Counter()
        for claim in self.all().values():
            for device in claim.devices:
                total[device.gpu] += device.consumed_bytes
        return dict(total)

    def device_ids(self, claim: PreparedClaim, gpu: str) -> list[str]:
        return cdi.device_ids(claim, gpu, self._options)


def _read(path: Path) -> PreparedClaim | None:
    """None if there is no such file; one that this driver did not write is removed. Raises OSError."""
    try:
        claim = claim_file.decode(path.read_bytes())
        if claim_file.file_name(claim.uid) != path.name:
            raise ValueError(f"it is of claim {claim.uid}")
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("%s is not a claim that this driver prepared, and is removed: %s", path, error)
        path.unlink(missing_ok=True)
        return None
    return claim


def _write(path: Path, content: bytes, mode: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    fresh = path.with_name(path.name + _FRESH)
    fresh.write_bytes(content)
    fresh.chmod(mode)
    fresh.replace(path)
