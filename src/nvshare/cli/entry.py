"""The console scripts. A Ctrl-C while their modules are imported ends them at once and without a traceback."""

import importlib
import signal


def nvshare() -> None:
    _start("nvshare.cli.nvshare")


def nvsharectl() -> None:
    _start("nvshare.cli.ctl.nvsharectl")


def kubectl_nvshare() -> None:
    _start("nvshare.cli.ctl.kubectl_nvshare")


def _start(module: str) -> None:
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not if the parent process ignores the signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, before)
    main()
