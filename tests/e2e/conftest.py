"""One real cluster for all stories: built, started, nvshare installed by its own manifests, and taken down again.

NVSHARE_E2E_KEEP=1 leaves the cluster up, and uses one that is up, for work on the stories themselves."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from components import command_lines
from e2e import kit
from e2e.dra import driver_instead_of_plugin
from images import import_image
from settings import CACHE, ETCD, LOGS, RUN, RUNTIME_BIN

TOOLS = kit.ROOT / "tools" / "cluster"
KEEP = os.environ.get("NVSHARE_E2E_KEEP") == "1"
SIMULATION = {
    "NVSHARE_SIM_GPUS": "2",
    "NVSHARE_SIM_MEMORY": "16Gi",
    "NVSHARE_SIM_SCALE": str(kit.SIM_SCALE),
    "NVSHARE_SIM_TRACE": "0",
}


@pytest.fixture(scope="session", autouse=True)
def nvshare(request: pytest.FixtureRequest) -> Iterator[None]:
    """The cluster with nvshare in it."""
    is_up = KEEP and (RUN / "pids.json").exists()
    _put_simulated_gpus()
    if not is_up:
        kit.cluster.up(TOOLS / "sim-runtime.sh")
    try:
        import_image(CACHE / "images" / "nvshare.tar")
        import_image(CACHE / "images" / "workload.tar")
        install()
        yield
    finally:
        if request.session.testsfailed:
            _keep_traces()
        if not KEEP:
            kit.cluster.down()


@pytest.fixture(scope="module")
def dra_driver(nvshare: None) -> Iterator[None]:
    """The DRA driver instead of the device plugin, for the stories of one file."""
    with driver_instead_of_plugin():
        yield


def install() -> None:
    """Apply the rendered manifests as a user would, and wait for the DaemonSets' own pods."""
    manifests = kit.ROOT / "deploy" / "manifests"
    kit.kubectl("apply", "-f", str(manifests / "namespace.yaml"))
    kit.kubectl("apply", "-f", str(manifests))
    for name in ("nvshare-scheduler", "nvshare-device-plugin"):
        kit.kubectl("rollout", "status", "-n", kit.SYSTEM, f"daemonset/{name}", "--timeout=90s")
    kit.wait_until(lambda: kit.allocatable() == 20, "the node offers 20 slots", 60)


def _put_simulated_gpus() -> None:
    """What sim_gpu_hook.py brings into containers."""
    shutil.rmtree(kit.SIM_DIR / "lib", ignore_errors=True)
    shutil.copytree(kit.ROOT / "src" / "nvshare" / "_native" / "sim", kit.SIM_DIR / "lib")
    state = kit.SIM_DIR / "state"
    if not KEEP:
        shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    state.chmod(0o1777)
    (kit.SIM_DIR / "environment.json").write_text(json.dumps(SIMULATION))


def _keep_traces() -> None:
    """What is needed to understand a failure, beside the components' logs."""
    for name in ("pods", "events"):
        text = kit.kubectl("get", name, "-A", "-o", "wide", check=False)
        (LOGS / f"at-failure-{name}.txt").write_text(text)
    for component in ("scheduler", "device-plugin", "dra-driver"):
        for flags in ((), ("--previous",)):
            selector = f"app.kubernetes.io/component={component}"
            text = kit.kubectl("logs", "-n", kit.SYSTEM, "-l", selector, "--tail=2000", *flags, check=False)
            (LOGS / f"at-failure-{component}{''.join(flags)}.log").write_text(text)
    print(f"\nThe cluster's logs are in {LOGS}: {', '.join(command_lines())}")


@pytest.fixture(autouse=True)
def clean_slate() -> Iterator[None]:
    """No story's pods are left for the next, nor what still ends of them."""
    yield
    kit.kubectl("delete", "pod", "-l", "test=nvshare", "--force", "--grace-period=0", "--ignore-not-found")
    kit.wait_until(lambda: kit.has_clients(0), "the story's clients have left", 60)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures that stories measured."""
    path = LOGS / "figures.txt"
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.getreports(kind)]
    if path.exists() and any("tests/e2e/" in report.nodeid for report in reports):
        terminalreporter.section("measured on the cluster")
        terminalreporter.write(path.read_text())


@pytest.fixture
def figure() -> Callable[[str], None]:
    """Note a measured figure; all are printed at the end."""

    def note(text: str) -> None:
        with (LOGS / "figures.txt").open("a") as file:
            file.write(f"{text}\n")

    return note


def pytest_sessionstart(session: pytest.Session) -> None:
    """Figures are this run's."""
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "figures.txt").unlink(missing_ok=True)
    for needed in (ETCD, RUNTIME_BIN / "containerd", "runc"):
        if shutil.which(needed) is None:
            pytest.exit(f"{needed} is not installed; tools/e2e.sh installs it", 1)
    subprocess.run([sys.executable, kit.ROOT / "deploy" / "render.py", "--check"], check=True)
