"""Small runs of frameworks under nvshare, in the interpreter where they are installed (framework_scripts.py)."""

import subprocess

from nvshare.cli.doctor.acceptance.framework_scripts import MODULES, REAL_CARD_ONLY, script_of
from nvshare.cli.doctor.acceptance.results import Card
from nvshare.cli.doctor.acceptance.several import SkippedError
from nvshare.cli.doctor.acceptance.single import Measure, scheduler, under
from nvshare.cli.errors import CommandError
from nvshare.inventory.nvml import Nvml
from nvshare.printable import last_line
from nvshare.simgpu.config import library_directory

FIND_S = 60
MOST_RANKS = 2


def framework(name: str, python: str) -> Measure:
    """One framework; skipped where it is not installed."""

    def measure(card: Card) -> dict[str, float]:
        module = MODULES.get(name, name)
        if not _is_installed(module, python):
            raise SkippedError(f"{module} is not installed for this interpreter; --python names another one")
        if card.is_simulated and name in REAL_CARD_ONLY:
            raise SkippedError(f"{name} does not run on a simulated card: {REAL_CARD_ONLY[name]}")
        gpus = _several(card) if name == "nccl" else (card.uuid,)
        with scheduler(card) as paths:
            environment = under(card, paths, name=name) | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
            if card.is_simulated:
                environment["LD_PRELOAD"] += f":{library_directory() / 'libcudart.so.12'}"
            _run(python, script_of(name, is_real=not card.is_simulated, ranks=len(gpus)), environment)
        return {"gpus": len(gpus)}

    return measure


def _several(card: Card) -> tuple[str, ...]:
    """The card and, if there is one, another: collectives between GPUs take other paths than within one."""
    with Nvml() as nvml:
        others = [gpu.uuid for gpu in nvml.discover() if gpu.uuid != card.uuid]
    return (card.uuid, *others)[:MOST_RANKS]


def _is_installed(module: str, python: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=FIND_S, check=False)  # noqa: S603
    except OSError as error:
        raise CommandError(f"{python}: {error.strerror}") from None
    return done.returncode == 0


def _run(python: str, script: str, environment: dict[str, str]) -> None:
    command = [python, "-c", script]
    done = subprocess.run(  # noqa: S603 - the interpreter that the user named
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.rstrip().endswith("ok"):
        raise CommandError(last_line(done.stderr) or f"it ended with exit code {done.returncode}")
