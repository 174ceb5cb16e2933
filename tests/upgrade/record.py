"""Records a conversation between the library and the scheduler of one version of the protocol.

    make native && make -C native checks
    python tests/upgrade/record.py             this checkout, into conversations/vN.txt
    python tests/upgrade/record.py CHECKOUT    another one, for example a worktree of a released version

A developer who raises PROTOCOL_VERSION records it. The conversation of a released version is never recorded again.

Two programs of one run share a limit of 70 GiB on a card of 64 GiB: they ask for budget, are refused, and take turns.
The operator changes the limit. Then the scheduler is killed while A has the lock and B has waited long for it, and the
next one takes them over. C comes with native memory and a limit of GPU time. The operator switches scheduling off and
on. At last D and E, a job on two GPUs, are asked to release their locks for A. E has done so, but D has not, and might
wait for work of E: so one submission of E is let through."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TextIO

from nvshare.unix_socket import peer_credentials

HERE = Path(__file__).resolve().parent
SCHEDULING = "scheduling"
STORY = [
    ("A", "init 0"),
    ("A", f"alloc {40 << 30}"),
    ("A", "spin 1 1"),
    ("B", "init 0"),
    ("B", f"alloc {25 << 30}"),
    ("B", f"alloc {10 << 30}"),
    ("B", "spin 1 1"),
    ("A", "spin 1 1"),
    ("operator", "80Gi"),
    ("B", f"alloc {10 << 30}"),
    ("A", "info"),
    ("A", "spin 1 1"),
    ("A", WITHHOLD := "withhold"),
    ("B", f"spin 1 1{(WITHOUT_WAITING := ' &')}"),
    ("time", "passes"),
    ("scheduler", "restart"),
    ("B", ANSWER := "answer"),
    ("B", "spin 1 1"),
    ("A", "spin 1 1"),
    ("B", f"alloc {1 << 30}"),
    ("C", "init 0"),
    ("C", f"alloc {1 << 30}"),
    ("C", "spin 1 1"),
    ("operator", f"{SCHEDULING} off"),
    ("A", "spin 1 1"),
    ("operator", f"{SCHEDULING} on"),
    ("A", "spin 1 1"),
    ("D", "init 0"),
    ("D", f"alloc {40 << 30}"),
    ("D", "spin 1 1"),
    ("E", "init 1"),
    ("E", "spin 1 1"),
    ("D", WITHHOLD),
    ("A", f"spin 1 1{WITHOUT_WAITING}"),
    ("time", "passes"),
    ("E", "spin 1 1"),
]
"""`withhold`: the program gets nothing that its scheduler sends from now on, and so holds its lock at the restart."""
LIMIT = "70Gi"
RUN_ID = "01" * 16
RUN = {"NVSHARE_RUN_ID": RUN_ID, "NVSHARE_GPU_MEMORY_LIMIT": LIMIT, "NVSHARE_RECONNECT_MS": "100", "NVSHARE_GANG": "1"}
JOB = {"NVS_NULL_GPUS": "2", "NVSHARE_RUN_ID": "02" * 16}
EXTRA = {"C": {"NVSHARE_MEMORY_MODE": "native", "NVSHARE_GPU_CORE_LIMIT": "100"}, "D": JOB, "E": JOB}
LONG_WAIT_S = 1
OPTIONS = [
    *("--nvml=off", "--kubernetes=off", "--settle-seconds=1", f"--long-wait-seconds={LONG_WAIT_S}"),
    *("--switch-time-mode=fixed", "--switch-time-fixed=1"),
]
SETTLED_S = 0.3
"""Between two commands, so that a report of memory (within 10 ms) is in the recording before the next command. An old
library says nothing when it has nothing to report, so there is no event to wait for. No test waits here."""


def environment_of(who: str) -> dict[str, str]:
    """What a program of the story has in its environment."""
    return {**RUN, **EXTRA.get(who, {})}


class Recorder:
    """Stands between the programs and their scheduler and writes down what passes."""

    def __init__(self, checkout: Path, place: Path, out: TextIO) -> None:
        self.checkout, self.place, self.out = checkout, place, out
        self.lock = threading.Lock()
        self.programs: dict[str, subprocess.Popen[str]] = {}
        self.withheld: set[str] = set()
        self.is_up = threading.Event()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(place / "s"))
        self.server.listen()
        self.scheduler = self.start_scheduler()
        threading.Thread(target=self.accept, daemon=True).start()

    def python(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.checkout / "src")}

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        path = self.place / "real" / "s"
        path.unlink(missing_ok=True)
        ways = ["--socket", str(path), "--operator-socket", str(self.place / "operator" / "s")]
        command = [sys.executable, "-m", "nvshare.scheduler.main", *ways, *OPTIONS]
        process = subprocess.Popen(command, env=self.python(), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not path.exists():
            assert time.monotonic() < deadline, "the scheduler does not start"
            time.sleep(0.01)
        self.is_up.set()
        return process

    def restart(self) -> None:
        self.is_up.clear()
        self.write("scheduler", "$", "restart")
        self.scheduler.kill()
        self.scheduler.wait()
        self.withheld.clear()
        self.scheduler = self.start_scheduler()
        time.sleep(1 + SETTLED_S)

    def write(self, who: str, sign: str, text: str) -> None:
        with self.lock:
            print(who, sign, text, file=self.out, flush=True)

    def accept(self) -> None:
        """Pass on each connection to the scheduler, as soon as there is one."""
        while True:
            near, _ = self.server.accept()
            pid = peer_credentials(near).pid
            who = next(name for name, program in self.programs.items() if program.pid == pid)
            self.is_up.wait()
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.place / "real" / "s"))
            for sign, source, sink in ((">", near, far), ("<", far, near)):
                threading.Thread(target=self.copy, args=(who, sign, source, sink), daemon=True).start()

    def copy(self, who: str, sign: str, source: socket.socket, sink: socket.socket) -> None:
        rest = b""
        while data := _received(source):
            rest += data
            while len(rest) >= 2 and len(rest) >= (length := int.from_bytes(rest[:2], "little")):
                if not (sign == "<" and who in self.withheld):
                    self.write(who, sign, rest[:length].hex())
                    sink.sendall(rest[:length])
                rest = rest[length:]
        if sign == "<":
            sink.shutdown(socket.SHUT_RDWR)  # the scheduler is gone

    def operate(self, order: str) -> None:
        """The operator changes the limit of the run, or switches scheduling on or off."""
        self.write("operator", "$", order)
        is_switch = order.startswith(SCHEDULING)
        words = ["--socket", str(self.place / "operator" / "s")]
        words += order.split() if is_switch else ["limit", f"{os.getuid()}-{RUN_ID}", order]
        where = (
            "nvshare.cli.ctl.nvsharectl"
            if (self.checkout / "src/nvshare/cli/ctl").exists()
            else "nvshare.cli.nvsharectl"
        )
        program = f"from {where} import main; main()"
        subprocess.run(
            [sys.executable, "-c", program, *words], env=self.python(), check=True, stdout=subprocess.DEVNULL
        )

    def program(self, who: str) -> subprocess.Popen[str]:
        if who not in self.programs:
            build = self.checkout / "build" / "native"
            environment = {
                **os.environ,
                **environment_of(who),
                "NVSHARE_SOCKET": str(self.place / "s"),
                "NVSHARE_NAME": "recorded",
            }
            environment["LD_LIBRARY_PATH"] = str(build / "null")
            environment["LD_PRELOAD"] = str(self.checkout / "src" / "nvshare" / "_native" / "libnvshare.so")
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            words = [str(build / "checks" / "lib_client"), "dlsym"]
            self.programs[who] = subprocess.Popen(words, env=environment, text=True, **pipes)  # type: ignore[call-overload]
        return self.programs[who]

    def command(self, who: str, command: str) -> None:
        program = self.program(who)
        assert program.stdin is not None
        assert program.stdout is not None
        text = command.removesuffix(WITHOUT_WAITING)
        if command != ANSWER:
            self.write(who, "$", text)
            program.stdin.write(f"{text}\n")
            program.stdin.flush()
        if command == text:
            self.write(who, "=", program.stdout.readline().split()[0])

    def run(self) -> None:
        for who, command in STORY:
            if who == "operator":
                self.operate(command)
            elif who == "time":
                time.sleep(LONG_WAIT_S + SETTLED_S)
            elif who == "scheduler":
                self.restart()
            elif command == WITHHOLD:
                self.withheld.add(who)
            else:
                self.command(who, command)
            time.sleep(SETTLED_S)
        for program in self.programs.values():
            program.kill()
        self.scheduler.kill()


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except OSError:  # closed here
        return b""


def main() -> None:
    checkout = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE.parents[1]
    ask = "from nvshare.wire.messages import PROTOCOL_VERSION; print(PROTOCOL_VERSION)"
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    version = int(subprocess.run([sys.executable, "-c", ask], env=environment, check=True, capture_output=True).stdout)
    path = HERE / "conversations" / f"v{version}.txt"
    with tempfile.TemporaryDirectory() as place, path.open("w") as out:
        print(f"# The library and the scheduler of protocol version {version}, recorded by record.py.", file=out)
        (Path(place) / "real").mkdir()
        Recorder(checkout, Path(place), out).run()
    print(path)


if __name__ == "__main__":
    main()
