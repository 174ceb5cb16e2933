"""The scheduler, but it waits for answers about budgets as long as a busy machine may need. How long it waits is tested
in tests/core, where the time is the test's.

python -m support.patient_scheduler OPTIONS OF nvshare-scheduler
"""

import sys
from typing import Any

from nvshare.core.model import SECOND, Settings
from nvshare.scheduler import main as program


def patient(**values: Any) -> Settings:
    return Settings(**values, recall_ns=60 * SECOND)


if __name__ == "__main__":
    program.Settings = patient  # type: ignore[assignment,attr-defined]
    sys.exit(program.main(sys.argv[1:]))
