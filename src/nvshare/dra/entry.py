"""The console script of the DRA driver: names the extra to install if its libraries are missing."""

import sys

from nvshare.plugin.entry import missing


def main() -> None:
    try:
        from nvshare.dra.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(missing("nvshare-dra-driver", error))
    run()
