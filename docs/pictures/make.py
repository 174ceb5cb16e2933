"""Creates the pictures of the live page and of `top` with the real scheduler and library on simulated GPUs.

python docs/pictures/make.py        needs chromium and the package playwright; takes about a minute
"""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Literal

from playwright.sync_api import sync_playwright
from rich.console import Console

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.ctl.top_view import View, screen
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.cleanup import temporary_directory
from nvshare.cli.run.environment import ProgramSettings, shared
from nvshare.cli.run.native_files import demo_program, library
from nvshare.simgpu.config import SimGpu

HERE = Path(__file__).parent
PORT = 19402
GIB = 1 << 30
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PROGRAMS = (  # name, GPU, GiB, bursts, passes, pause in ms, seconds after the first
    ("train-resnet", 0, 9, 600, 10, 0, 0.0),
    ("train-bert", 0, 9, 600, 10, 0, 3.0),
    ("serve-llm", 0, 3, 600, 2, 300, 8.0),
    ("notebook", 1, 4, 20, 20, 1500, 2.0),
    ("batch", 1, 6, 600, 10, 0, 12.0),
)
SHOTS: tuple[tuple[str, int, Literal["light", "dark"], int], ...] = (
    ("page-light", 1100, "light", 1),
    ("page-dark", 1100, "dark", 1),
    ("page-phone", 390, "light", 1),
)


def main() -> None:
    with temporary_directory() as folder:
        card = SimGpu().with_values(
            directory=folder / "card", gpus=2, scale=1.0, kernels={"nvshare_demo_pass": "12.5ms"}
        )
        (folder / "card").mkdir()
        environment = card.environment()
        paths = private_scheduler.SchedulerPaths(str(folder))
        options = ("--switch-time-mode", "fixed", "--switch-time-fixed", "6", "--http", f"127.0.0.1:{PORT}")
        private_scheduler.join(paths, environment, (*options, "--move-seconds-per-gib", "0.05"))
        programs = [start(environment, paths, *program) for program in PROGRAMS]
        try:
            time.sleep(16)
            status = operator_client.ask(paths.operator_socket, admin.GetStatus())
            assert isinstance(status, admin.Status)
            serve = next(client for client in status.node.clients if client.name == "serve-llm")
            operator_client.ask(paths.operator_socket, admin.SetLimit(admin.client_name(serve.id), 4 * GIB))
            time.sleep(14)
            shoot()
            draw_top(paths.operator_socket)
        finally:
            for program in programs:
                program.kill()


def start(
    environment: dict[str, str], paths: private_scheduler.SchedulerPaths, *program: object
) -> "subprocess.Popen[bytes]":
    name, gpu, gib, bursts, passes, pause, after = program
    made = shared(
        environment,
        library=library(),
        socket=paths.socket,
        settings=ProgramSettings(name=str(name), run_id=os.urandom(16).hex()),
    )
    made["CUDA_VISIBLE_DEVICES"] = str(gpu)
    words = [str(demo_program("worker")), f"{gib}Gi", str(bursts), str(passes), "1", str(pause)]
    script = ["sh", "-c", f"sleep {after}; exec " + " ".join(words)]
    return subprocess.Popen(script, env=made, stdout=subprocess.DEVNULL)  # noqa: S603 - our own programs


def shoot() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, width, scheme, sharpness in SHOTS:
            page = browser.new_page(
                viewport={"width": width, "height": 820}, color_scheme=scheme, device_scale_factor=sharpness
            )
            page.goto(f"http://127.0.0.1:{PORT}")
            page.locator("td.who").first.wait_for()
            page.wait_for_timeout(1200)
            page.screenshot(path=HERE / f"{name}.png", full_page=width < 500)
        browser.close()


def draw_top(path: str) -> None:
    status = operator_client.ask(path, admin.GetStatus())
    assert isinstance(status, admin.Status)
    console = Console(width=110, height=16, record=True, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    console.print(screen(status, View(), width=110, height=16))
    drawn = console.export_svg(title="nvsharectl top")
    # Remove the fonts, which the browser would download.
    (HERE / "top.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    main()
