"""The console script of the device plugin: names the extra to install if its libraries are missing."""

import sys

NEEDED = ("grpc", "google")
"""The packages of the extra `kubernetes`."""


def main() -> None:
    try:
        from nvshare.plugin.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        sys.exit(f"nvshare-device-plugin: {error.name} is not installed; run pip install 'nvshare[kubernetes]'")
    run()
