"""The console script of the device plugin: names the extra to install if its libraries are missing."""

import sys

NEEDED = ("grpc", "google")
"""The packages of the extra `kubernetes`."""


def missing(program: str, error: ModuleNotFoundError) -> str:
    """What to tell the user; raises the error if it is about another package."""
    if (error.name or "").partition(".")[0] not in NEEDED:
        raise error
    return f"{program}: {error.name} is not installed; run pip install 'nvshare[kubernetes]'"


def main() -> None:
    try:
        from nvshare.plugin.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(missing("nvshare-device-plugin", error))
    run()
