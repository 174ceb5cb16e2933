"""Being loaded: into programs of every kind, and by every way to find the driver."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from libnvshare.programs import CHECKS, LIBRARY, NOT_INSTALLED, NULL_DRIVER, Programs
from nvshare.simgpu.config import SimGpu, library_directory

HELLO = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) { return printf("%d\\n", dlsym(RTLD_DEFAULT, "printf") != 0) != 2; }
"""


def compiled(tmp_path: Path, source: str, *command: str) -> Path:
    """A program from C source; skips where the machine lacks the compiler or its libraries."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    (tmp_path / "program.c").write_text(source)
    made = subprocess.run(
        [*command, "program.c", "-o", "program"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"{' '.join(command)} cannot compile here: {made.stderr.splitlines()[0]}")
    return tmp_path / "program"


def test_a_musl_program_starts_as_before(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(compiled(tmp_path, HELLO, "musl-gcc"), LD_LIBRARY_PATH="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_static_program_starts_as_before(programs: Programs, tmp_path: Path) -> None:
    source = '#include <stdio.h>\nint main(void){puts("1");return 0;}\n'
    done = programs.run(compiled(tmp_path, source, "cc", "-static"), LD_LIBRARY_PATH="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_32_bit_program_starts_as_before_but_for_the_loaders_own_line(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(compiled(tmp_path, HELLO, "cc", "-m32"), LD_LIBRARY_PATH="")
    assert (done.returncode, done.stdout) == (0, "1\n")


SECOND = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
/* Another preloaded library, as they are usually written: its own wrapper finds the next one by dlsym(RTLD_NEXT). */
pid_t getpid(void)
{
    static pid_t (*next)(void);
    if (!next) next = (pid_t (*)(void))dlsym(RTLD_NEXT, "getpid");
    return next() + 1000000;
}
__attribute__((constructor)) static void early(void) { if (!dlsym(RTLD_DEFAULT, "getpid")) _exit(9); }
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_second_preloaded_library_still_finds_its_next(programs: Programs, tmp_path: Path, order: str) -> None:
    (tmp_path / "second.c").write_text(SECOND)
    subprocess.run(["cc", "-shared", "-fPIC", "second.c", "-o", "second.so", "-ldl"], cwd=tmp_path, check=True)
    both = [str(LIBRARY), str(tmp_path / "second.so")]
    preload = ":".join(both if order == "before" else both[::-1])
    script = "import os; print(os.getpid() > 1000000)"
    done = programs.run(sys.executable, "-c", script, LD_PRELOAD=preload)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


VERSIONS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
/* dlsym by its versions, as programs linked on older and newer machines ask for it. */
int main(void)
{
    void *self = dlopen(0, RTLD_NOW), *found[3];
    const char *versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"};
    int same = 0;
    for (int i = 0; i < 3; i++)
        if ((found[i] = dlvsym(self, "dlsym", versions[i])))
            same += found[i] == (void *)dlsym;
    printf("%d %d\\n", same, dlvsym(self, "no_such_thing", "GLIBC_2.2.5") == 0);
}
"""


def test_dlsym_is_found_under_each_of_its_versions(programs: Programs, tmp_path: Path) -> None:
    done = programs.run(compiled(tmp_path, VERSIONS, "cc"))
    assert done.returncode == 0, done.stderr
    same, missing = map(int, done.stdout.split())
    assert same == 2
    assert missing


def exported(path: Path, kind: str) -> set[str]:
    out = subprocess.run(["nm", "-D", f"--{kind}-only", str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in out.splitlines()}


def test_nothing_is_exported_but_what_stands_in_front_of_something() -> None:
    names = exported(LIBRARY, "defined")
    assert {name for name in names if not re.match(r"cu[A-Z]|nvmlDevice|dlv?sym$|GLIBC_", name)} == set()
    assert {"dlsym", "dlvsym", "cuLaunchKernel", "cuLaunchKernel_ptsz", "nvmlDeviceGetMemoryInfo_v2"} <= names


NEEDLESS = {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetExportTable"}
UNKNOWN = {"cuProfilerInitialize"}  # stands for what a newer driver has


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there are no checkpoints")
def test_a_program_that_is_linked_with_the_driver_finds_every_function_in_the_library() -> None:
    """In memory mode checkpoint each is behind a stub, except those that need none."""
    driver = exported(library_directory() / "libcuda.so.1", "defined")
    bypassed = driver - exported(LIBRARY, "defined")
    assert {name for name in bypassed if not name.startswith("cuCheckpoint")} == NEEDLESS | UNKNOWN


def test_no_driver_is_needed_to_load_it() -> None:
    out = subprocess.run(["readelf", "-d", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", out))
    assert {name.split(".so")[0] for name in needed} <= {"libc", "libdl", "libpthread", "ld-linux-x86-64"}


LOOKUPS = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
ask = driver.cuGetProcAddress_v2
for line in open(sys.argv[1]):
    if line.startswith("#"):
        continue
    name, version, flags = line.split()
    found, status = ctypes.c_void_p(), ctypes.c_int(-1)
    result = ask(name.encode(), ctypes.byref(found), int(version), ctypes.c_uint64(int(flags)), ctypes.byref(status))
    print(name, version, flags, result, status.value, found.value is not None)
"""


def test_every_lookup_of_libcudart_is_answered_as_the_driver_would(programs: Programs) -> None:
    lookups = Path(__file__).parent / "data" / "cudart-13.0-lookups.txt"
    with_library = programs.run(sys.executable, "-c", LOOKUPS, lookups, **simulated(programs))
    without = programs.run(sys.executable, "-c", LOOKUPS, lookups, **simulated(programs), LD_PRELOAD="")
    assert with_library.stdout.count("\n") == 439
    assert with_library.stdout == without.stdout


PER_THREAD = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
for ask, more in ((driver.cuGetProcAddress_ptsz, ()), (driver.cuGetProcAddress_v2_ptsz, (None,))):
    for flags, symbol in ((0, "cuLaunchKernel_ptsz"), (1, "cuLaunchKernel"), (2, "cuLaunchKernel_ptsz")):
        found = ctypes.c_void_p()
        assert ask(b"cuLaunchKernel", ctypes.byref(found), 12000, ctypes.c_uint64(flags), *more) == 0
        wanted = ctypes.cast(getattr(driver, symbol), ctypes.c_void_p)
        assert found.value == wanted.value, (ask.__name__, flags)
print("ok")
"""


@pytest.mark.parametrize("preload", [{}, {"LD_PRELOAD": ""}], ids=["shared", "bare"])
def test_a_program_for_the_per_thread_default_stream_finds_its_functions(
    programs: Programs, preload: dict[str, Any]
) -> None:
    """Its header turns cuGetProcAddress into cuGetProcAddress_v2_ptsz. What that finds is what dlsym finds."""
    assert programs.run(sys.executable, "-c", PER_THREAD, **simulated(programs), **preload).stdout == "ok\n"


def simulated(programs: Programs) -> dict[str, Any]:
    directory = programs.directory / "gpus"
    directory.mkdir(exist_ok=True)
    card = SimGpu().with_values(directory=str(directory), gpus=1, memory="16Gi", scale=0.01)
    source = str(Path(__file__).parents[2] / "src")
    return {**card.environment({}), "PYTHONPATH": source, "NVSHARE_SOCKET": NOT_INSTALLED}


def test_the_driver_answers_while_the_library_gets_no_memory_to_set_itself_up(programs: Programs) -> None:
    done = programs.run(CHECKS / "lib_no_memory", NVSHARE_SOCKET=NOT_INSTALLED)
    assert done.returncode == 0, done.stderr


NVML = """
import ctypes, pynvml
from ctypes import byref, c_size_t, c_void_p
driver = ctypes.CDLL("libcuda.so.1")
context = c_void_p()
assert driver.cuInit(0) == 0 and driver.cuCtxCreate_v2(byref(context), 0, 0) == 0
pointer = c_void_p()
assert driver.cuMemAlloc_v2(byref(pointer), c_size_t(1 << 30)) == 0
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
for version in (None, pynvml.nvmlMemory_v2):
    memory = pynvml.nvmlDeviceGetMemoryInfo(card, version=version)
    print(memory.total >> 30, memory.free >> 30, memory.used >> 30)
"""


def test_nvml_agrees_with_cuda_about_memory(programs: Programs) -> None:
    done = programs.run(sys.executable, "-c", NVML, **simulated(programs), NVSHARE_GPU_MEMORY_LIMIT="4Gi")
    assert done.stdout == "4 3 1\n4 3 1\n", done.stderr


NVML_BEFORE_CUDA = """
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
for version in (None, pynvml.nvmlMemory_v2):
    memory = pynvml.nvmlDeviceGetMemoryInfo(card, version=version)
    print(memory.total >> 30, memory.free >> 30, memory.used >> 30)
"""


def test_before_cuda_starts_nvml_shows_what_a_program_may_get_whatever_others_use(on_card: Programs) -> None:
    other = on_card.start(NVSHARE_DISABLE="1")
    other.do("init 0")
    other.do(f"alloc {8 << 30}")
    done = on_card.run(sys.executable, "-c", NVML_BEFORE_CUDA, NVSHARE_GPU_MEMORY_LIMIT="4Gi")
    assert done.stdout == "4 4 0\n4 4 0\n", done.stderr


NVML_PARTS = """
import sys, pynvml
if sys.argv[1] == "cuda":
    import ctypes
    driver = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.c_void_p()
    assert driver.cuInit(0) == 0 and driver.cuCtxCreate_v2(ctypes.byref(pointer), 0, 0) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)) == 0
pynvml.nvmlInit()
memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0), version=pynvml.nvmlMemory_v2)
print(memory.total - memory.reserved - memory.free - memory.used, memory.reserved >> 20)
"""


@pytest.mark.parametrize("when", ["before", "cuda"])
@pytest.mark.parametrize(("limit", "reserved_mib"), [("4Gi", 0), ("64Gi", 600)])
def test_what_nvml_says_is_reserved_used_and_free_is_the_total(
    programs: Programs, when: str, limit: str, reserved_mib: int
) -> None:
    """What the driver reserves of the card is not part of a limit."""
    settings = {**simulated(programs), "NVSHARE_SIM_NVML_RESERVED": "600Mi", "NVSHARE_GPU_MEMORY_LIMIT": limit}
    done = programs.run(sys.executable, "-c", NVML_PARTS, when, **settings)
    assert done.stdout == f"0 {reserved_mib}\n", done.stderr


BINDINGS = """
from cuda.bindings import driver as cu
def ok(answer):
    assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]
ok(cu.cuInit(0))
context = ok(cu.cuDevicePrimaryCtxRetain(0))
ok(cu.cuCtxSetCurrent(context))
print([value >> 30 for value in ok(cu.cuMemGetInfo())])
memory = ok(cu.cuMemAlloc(1 << 30))
ok(cu.cuMemsetD8(memory, 7, 4096))
print([value >> 30 for value in ok(cu.cuMemGetInfo())])
print(cu.cuMemAlloc(4 << 30)[0] == cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY)
ok(cu.cuMemFree(memory))
"""


def test_cuda_bindings_run_under_it(programs: Programs) -> None:
    pytest.importorskip("cuda.bindings", reason="cuda-bindings is not installed (development group)")
    done = programs.run(sys.executable, "-c", BINDINGS, **simulated(programs), NVSHARE_GPU_MEMORY_LIMIT="4Gi")
    assert done.stdout == "[4, 4]\n[3, 4]\nTrue\n", done.stderr


def test_the_unit_checks_of_the_pure_parts_pass() -> None:
    units = sorted((Path(__file__).parents[1] / "native").glob("lib_unit_*.c"))
    assert len(units) >= 3
    for source in units:
        done = subprocess.run([CHECKS / source.stem], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "checks passed" in done.stdout
    assert NULL_DRIVER.is_dir()
