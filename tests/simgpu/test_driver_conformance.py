"""Every function of the simulated driver is called by a C program that asserts its result; sanitizers look on."""

import re
import subprocess
from pathlib import Path

import pytest

from nvshare.simgpu.config import library_directory
from simgpu.node import MakeNode

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("devices", "memory", "copies", "streams", "graphs", "graph_memory", "graph_params", "checkpoint")
PER_THREAD = re.compile(r"_pt(sz|ds)$")


def exported(library: Path) -> set[str]:
    table = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in table.splitlines()}


def build_with(sanitizers: str, programs: tuple[str, ...]) -> Path:
    """A sanitizer build of the driver and of these programs; made here if it is not up to date."""
    build = ROOT / "build" / f"native-{sanitizers.replace(',', '-')}"
    targets = [f"{ROOT}/native/../build/{build.name}/checks/simgpu_{program}" for program in programs]
    command = ["make", "-s", "-C", str(ROOT / "native"), f"SAN={sanitizers}", *targets]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return build


@pytest.fixture(scope="session")
def sanitized_checks() -> Path:
    return build_with("address,undefined", (*PROGRAMS, "unit_state", "stress"))


@pytest.fixture(scope="session")
def thread_checks() -> Path:
    return build_with("thread", ("stress",))


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_call_gives_the_result_cuda_gives(make_node: MakeNode, checks: Path, program: str) -> None:
    make_node().run(checks / f"simgpu_{program}")


@pytest.mark.parametrize("program", [*PROGRAMS, "unit_state", "stress"])
def test_the_sanitizers_find_nothing(make_node: MakeNode, sanitized_checks: Path, program: str) -> None:
    make_node().run(
        "env",
        f"LD_LIBRARY_PATH={sanitized_checks / 'out' / 'sim'}",
        "UBSAN_OPTIONS=halt_on_error=1",
        "ASAN_OPTIONS=detect_leaks=0",  # handles are recycled, never freed, on purpose
        sanitized_checks / "checks" / f"simgpu_{program}",
    )


def test_every_exported_function_is_called(make_node: MakeNode, checks: Path, tmp_path: Path) -> None:
    covered = tmp_path / "covered"
    for program in PROGRAMS:
        make_node().run(checks / f"simgpu_{program}", COVERED=str(covered))
    assert exported(library_directory() / "libcuda.so.1") - set(covered.read_text().split()) == set()


def test_the_list_of_functions_is_what_is_exported() -> None:
    listed = re.findall(r"^(?:FN|NO)\((\w+),", (ROOT / "native/simgpu/driver/functions.def").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(exported(library_directory() / "libcuda.so.1"))
    assert sorted(listed) == sorted(exported(ROOT / "build" / "native" / "null" / "libcuda.so.1"))


def test_programs_can_be_linked_with_the_driver() -> None:
    assert (library_directory() / "libcuda.so").resolve() == (library_directory() / "libcuda.so.1").resolve()


def test_all_that_a_cuda_13_runtime_looks_up_is_found_except_graphics(make_node: MakeNode) -> None:
    lookups = Path(__file__).parents[1] / "libnvshare" / "data" / "cudart-13.0-lookups.txt"
    missing = make_node().python(
        f"""
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        for line in open({str(lookups)!r}):
            if line.startswith("#"):
                continue
            name, version, flags = line.split()
            function, status = ctypes.c_void_p(), ctypes.c_int()
            wanted = name.encode(), ctypes.byref(function), int(version), ctypes.c_uint64(int(flags))
            assert cuda.cuGetProcAddress_v2(*wanted, ctypes.byref(status)) == 0
            if not function.value:
                print(name)
        """
    )
    graphics = re.compile(r"cuGL|cuEGL|cuVDPAU|cuGraphics(EGL|GL|VDPAU|ResourceGetMappedEgl)")
    assert [name for name in missing.split() if not graphics.match(name)] == []


def test_every_default_stream_function_has_its_per_thread_twin() -> None:
    names = exported(library_directory() / "libcuda.so.1")
    twins = {PER_THREAD.sub("", name) for name in names if PER_THREAD.search(name)}
    assert twins <= names
    takes_a_stream = {name for name in names if re.search(r"Async(_v2)?$", name)}
    assert takes_a_stream - twins == set()


def test_work_has_ended_when_its_time_is_over_even_if_the_card_s_thread_gets_no_processor(
    make_node: MakeNode, checks: Path
) -> None:
    make_node().run(checks / "simgpu_starved")


def test_threads_with_everything_at_once_come_to_no_harm(make_node: MakeNode, checks: Path) -> None:
    make_node(gpus=2).run(checks / "simgpu_stress", STRESS_SECONDS="2")


def test_the_threads_do_not_race(make_node: MakeNode, thread_checks: Path) -> None:
    program = thread_checks / "checks" / "simgpu_stress"
    library = thread_checks / "out" / "sim"
    make_node(gpus=2).run("env", f"LD_LIBRARY_PATH={library}", program, STRESS_SECONDS="3", TSAN_OPTIONS="exitcode=66")


def test_the_shared_state_survives_kills_and_evicts_the_least_recently_used(make_node: MakeNode, checks: Path) -> None:
    make_node().run(checks / "simgpu_unit_state")
