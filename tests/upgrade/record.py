"""Records a conversation between the library and the scheduler of a checkout that has been built with its checks:

    python tests/upgrade/record.py CHECKOUT > tests/upgrade/conversations/v1.txt

Two programs of one run share a limit of 70 GiB on a card of 64 GiB: they ask for budget, are refused, and take turns.
Then the operator changes the limit."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

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
]
LIMIT = "70Gi"
RUN_ID = "01" * 16
RUN = {"NVSHARE_RUN_ID": RUN_ID, "NVSHARE_GPU_MEMORY_LIMIT": LIMIT}
OPTIONS = ["--nvml=off", "--kubernetes=off", "--settle-seconds=0", "--switch-time-mode=fixed", "--switch-time-fixed=1"]
SETTLED_S = 0.3
"""Between two commands: reports of memory come within 10 ms."""


class Recorder:
    """Stands between the programs and their scheduler and writes down what passes."""

    def __init__(self, checkout: Path, place: Path) -> None:
        self.checkout, self.place = checkout, place
        self.lock = threading.Lock()
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(str(place / "s"))
        self.server.listen()
        ways = ["--socket", str(place / "real" / "s"), "--operator-socket", str(place / "operator" / "s")]
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        command = [sys.executable, "-m", "nvshare.scheduler.main", *ways, *OPTIONS]
        self.scheduler = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        while not (place / "real" / "s").exists():
            time.sleep(0.01)

    def write(self, who: str, sign: str, text: str) -> None:
        with self.lock:
            print(who, sign, text, flush=True)

    def pass_on(self, who: str) -> None:
        """The next connection is of this program."""
        near, _ = self.server.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self.place / "real" / "s"))
        for sign, source, sink in ((">", near, far), ("<", far, near)):
            threading.Thread(target=self.copy, args=(who, sign, source, sink), daemon=True).start()

    def copy(self, who: str, sign: str, source: socket.socket, sink: socket.socket) -> None:
        rest = b""
        while data := source.recv(1 << 16):
            rest += data
            while len(rest) >= 2 and len(rest) >= (length := int.from_bytes(rest[:2], "little")):
                self.write(who, sign, rest[:length].hex())
                sink.sendall(rest[:length])
                rest = rest[length:]

    def limit(self, value: str) -> None:
        """The operator changes the limit of the run."""
        self.write("operator", "$", value)
        words = ["--socket", str(self.place / "operator" / "s"), "limit", f"{os.getuid()}-{RUN_ID}", value]
        program = "from nvshare.cli.ctl.nvsharectl import main; main()"
        environment = {**os.environ, "PYTHONPATH": str(self.checkout / "src")}
        subprocess.run([sys.executable, "-c", program, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
        time.sleep(SETTLED_S)

    def run(self) -> None:
        build = self.checkout / "build" / "native"
        environment = {**os.environ, **RUN, "NVSHARE_SOCKET": str(self.place / "s"), "NVSHARE_NAME": "recorded"}
        environment["LD_LIBRARY_PATH"] = str(build / "null")
        environment["LD_PRELOAD"] = str(self.checkout / "src" / "nvshare" / "_native" / "libnvshare.so")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        programs: dict[str, subprocess.Popen[str]] = {}
        for who, command in STORY:
            if who == "operator":
                self.limit(command)
                continue
            if who not in programs:
                words = [str(build / "checks" / "lib_client"), "dlsym"]
                programs[who] = subprocess.Popen(words, env=environment, text=True, **pipes)  # type: ignore[call-overload]
                threading.Thread(target=self.pass_on, args=(who,), daemon=True).start()
            program = programs[who]
            assert program.stdin is not None
            assert program.stdout is not None
            self.write(who, "$", command)
            program.stdin.write(f"{command}\n")
            program.stdin.flush()
            self.write(who, "=", program.stdout.readline().split()[0])
            time.sleep(SETTLED_S)
        for program in programs.values():
            program.kill()
        self.scheduler.kill()


def main() -> None:
    checkout = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "real").mkdir()
        Recorder(checkout, Path(place)).run()


if __name__ == "__main__":
    main()
