"""The wheel that `make release` builds for this machine: what is in it, and that it works alone in an environment."""

import os
import platform
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import release
from nvshare import __version__

MACHINE = platform.machine()

pytest.importorskip("ziglang", reason="ziglang is not installed (development group)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The objects are kept in build/, so a second build compiles only what has changed."""
    return release.wheel(MACHINE, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of the wheel in a new environment.

    Its dependencies are those of this environment, found by a path file, so the test needs no network. A path file does
    not make Python read the path files of the directory that it names: the sources, installed there for development,
    are not visible."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=300)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True, timeout=300)
    (own,) = (environment / "lib").glob("python3*/site-packages")
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent


Call = Callable[..., str]


@pytest.fixture
def call(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Runs a program of the wheel and gives what it printed."""
    runtime = tmp_path_factory.mktemp("r")
    runtime.chmod(0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVSHARE_", "PYTHON", "LD_"))}

    def run(program: str, *words: str) -> str:
        done = subprocess.run(
            [str(installed / program), *words],
            cwd=runtime,
            env=kept | {"XDG_RUNTIME_DIR": str(runtime), "COLUMNS": "110"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_a_wheel_has_the_library_the_units_and_the_man_pages(wheel: Path) -> None:
    assert wheel.name == f"nvshare-{__version__}-py3-none-{release.platform_tag(MACHINE)}.whl"
    data = f"nvshare-{__version__}.data/data/share/man"
    expected = {
        "nvshare/_native/libnvshare.so",
        "nvshare/_native/sim/libcuda.so.1",
        "nvshare/_native/demo/worker",
        "nvshare/_systemd/nvshare-scheduler.service",
        "nvshare/_systemd/nvshare-scheduler-user.service",
        "nvshare/_systemd/nvshare-scheduler.default",
        f"{data}/man1/nvshare.1",
        f"{data}/man8/nvshare-scheduler.8",
        f"nvshare-{__version__}.dist-info/licenses/LICENSE",
    }
    assert expected <= set(zipfile.ZipFile(wheel).namelist())


def test_a_wheel_keeps_the_promise_of_its_name(wheel: Path) -> None:
    assert release.violations(wheel, MACHINE) == []


def test_a_wheel_that_breaks_its_promise_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "broken.whl"
    with zipfile.ZipFile(broken, "w") as archive:
        # This file is built for this machine's C library, which is newer, and links what manylinux2014 does not have.
        archive.write(sys.executable, "nvshare/_native/python")
    other = next(name for name in release.MACHINES if name != MACHINE)
    problems = release.violations(broken, other)
    assert problems[0] == "libnvshare.so is not in it"
    assert problems[1].startswith("nvshare/_native/python is for machine")
    assert any("needs glibc 2." in problem for problem in problems)


def test_the_programs_of_a_wheel_start_where_only_it_is_installed(call: Call, installed: Path) -> None:
    found = call("python", "-c", "import nvshare; print(nvshare.__file__)").strip()
    assert Path(found).is_relative_to(installed.parent)
    for program in ("nvshare", "nvsharectl", "nvshare-scheduler", "nvshare-device-plugin", "nvshare-dra-driver"):
        assert program in call(program, "--help")
    assert "kubectl nvshare" in call("kubectl-nvshare", "--help")
    assert f"ExecStart={installed}/nvshare-scheduler " in call("nvshare", "install-service", "--print")


def test_a_program_runs_on_the_simulated_gpu_from_a_wheel(call: Call, installed: Path) -> None:
    (worker,) = installed.parent.glob("lib/python3*/site-packages/nvshare/_native/demo/worker")
    printed = call(
        "nvshare", "run", "--sim-gpus", "1", "--sim-memory", "16Gi", "--limit", "4Gi", "--",
        str(worker), "2147483648", "2", "1", "1", "0",
    )  # fmt: skip
    assert printed.strip()
