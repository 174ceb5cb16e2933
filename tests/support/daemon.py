"""The real nvshare-scheduler as a process of its own, on sockets in a test's own directory."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.request
from io import StringIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.client import WireClient
from support.log import LogReader

PROGRAM = [sys.executable, "-m", "nvshare.scheduler.main"]
READY_S = 60.0
SOURCES = Path(__file__).parents[2] / "src"


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment without its own nvshare settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NVSHARE_")}
    kept.pop("XDG_RUNTIME_DIR", None)
    paths = [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)} | more


class Daemon:
    """One scheduler. It is ready when made; `options` are flags as the user types them."""

    def __init__(self, place: Path, *options: str, wrapper: tuple[str, ...] = (), **environment: str) -> None:
        self.socket = str(place / "run" / "scheduler.sock")
        self.operator_socket = str(place / "operator" / "control.sock")
        place.mkdir(exist_ok=True)
        ways = ["--socket", self.socket, "--operator-socket", self.operator_socket, "--nvml", "off", "--kubernetes=off"]
        notices = place / "notify"
        notices.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hears:
            hears.bind(str(notices))
            self.process = subprocess.Popen(
                [*wrapper, *PROGRAM, *ways, *options],
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                env=clean_environment(NOTIFY_SOCKET=str(notices), **environment),
            )
            assert self.process.stderr is not None
            self.log = LogReader(self.process.stderr)
            self._await_ready(hears)

    def _await_ready(self, hears: socket.socket) -> None:
        pidfd = os.pidfd_open(self.process.pid)
        try:
            readable, _, _ = select.select([hears.fileno(), pidfd], [], [], READY_S)
        finally:
            os.close(pidfd)
        if hears.fileno() not in readable:
            self.kill()
            raise AssertionError(f"the scheduler did not start:\n{self.log.text}")
        assert hears.recv(100) == b"READY=1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self, **options: Any) -> WireClient:
        return WireClient(self.socket, **options)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.wait_end()
        return code

    def assert_alive(self) -> None:
        assert self.process.poll() is None, f"the scheduler ended with {self.process.returncode}:\n{self.log.text}"

    # What an operator sees.

    def ctl(self, *words: str, code: int = 0) -> str:
        """nvsharectl's standard output; its standard error if another exit code than 0 is expected.

        The console script is called here: a process of its own (`run_ctl`) would do the same, half a second later."""
        ended, out, err = call_ctl("--socket", self.operator_socket, *words)
        assert ended == code, f"nvsharectl {words} ended with {ended}: {err}{out}"
        return err if code else out

    def run_ctl(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_ctl("--socket", self.operator_socket, *words, **environment)

    def status(self) -> dict[str, Any]:
        """`nvsharectl status -o json`, by way of the socket."""
        from nvshare import admin
        from nvshare.cli import operator_client
        from nvshare.status_document import status_document

        answer = operator_client.ask(self.operator_socket, admin.GetStatus())
        assert isinstance(answer, admin.Status)
        return status_document(answer)

    @property
    def http(self) -> str:
        """Where it serves http, if it was told to."""
        line = self.log.wait_for(r"http at ")
        return "http://" + line.partition("http at ")[2]

    def metrics_text(self) -> str:
        with urllib.request.urlopen(self.http + "/metrics", timeout=60) as page:
            return str(page.read().decode())

    def metric(self, name: str, **labels: str) -> float | None:
        """One sample's value; None if there is no such series."""
        from prometheus_client.parser import text_string_to_metric_families

        for family in text_string_to_metric_families(self.metrics_text()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return None

    def memory_bytes(self) -> int:
        """Resident memory."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", text)
        assert match is not None
        return int(match[1]) * 1024

    def processor_seconds(self) -> float:
        """How long its event loop has run on a processor."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


def call_ctl(*words: str) -> tuple[int, str, str]:
    """nvsharectl's console script, called: its exit code, standard output and standard error."""
    from nvshare.cli.ctl import nvsharectl

    before, sys.argv = sys.argv, ["nvsharectl", *words]
    try:
        with contextlib.redirect_stdout(StringIO()) as out, contextlib.redirect_stderr(StringIO()) as err:
            nvsharectl.main()
    except SystemExit as ended:
        return int(ended.code or 0), out.getvalue(), err.getvalue()
    finally:
        sys.argv = before
    raise AssertionError("the console script always exits")


def run_ctl(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """nvsharectl as a process."""
    return subprocess.run(
        [sys.executable, "-m", "nvshare.cli.ctl.nvsharectl", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(**environment),
    )


def run_scheduler(*options: str, wrapper: tuple[str, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """A scheduler that is expected to end by itself."""
    return subprocess.run(
        [*wrapper, *PROGRAM, *options],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=clean_environment(**environment),
    )
