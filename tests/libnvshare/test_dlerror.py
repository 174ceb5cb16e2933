"""dlerror agrees with dlsym about what the library hides."""

from pathlib import Path

import pytest

from libnvshare.programs import Programs
from libnvshare.test_loading import compiled

IDIOM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
/* dlsym as POSIX says how to use it: dlerror tells whether there was an error, not the pointer. */
static void look(void *handle, const char *name, const char *version)
{
    dlerror();
    void *found = version ? dlvsym(handle, name, version) : dlsym(handle, name);
    const char *error = dlerror();
    printf("%s %s %d\\n", name, found ? "found" : "missing", error && (found || strstr(error, name)));
}
int main(int count, char **names)
{
    void *self = dlopen(0, RTLD_NOW), *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    for (int i = 1; i < count; i++) {
        look(self, names[i], NULL);
        look(RTLD_DEFAULT, names[i], NULL);
        look(self, names[i], "NOT_A_VERSION");
        if (driver)
            look(driver, names[i], NULL);
    }
}
"""


@pytest.mark.parametrize("memory_mode", ["managed", "checkpoint"])
def test_dlerror_says_what_dlsym_did_not_find(programs: Programs, tmp_path: Path, memory_mode: str) -> None:
    """Without a driver, and with one that lacks a function that the library exports."""
    program = compiled(tmp_path, IDIOM, "cc")
    names = ["cuLaunchKernel", "cuMemAlloc_v2", "cuNothing", "nvmlDeviceGetMemoryInfo"]
    alone = programs.run(program, *names, LD_LIBRARY_PATH="", NVSHARE_MEMORY_MODE=memory_mode).stdout.splitlines()
    assert [line for line in alone if line.startswith("cu")] == [f"{n} missing 1" for n in names[:3] for _ in range(3)]
    assert all(line.endswith(("found 0", "missing 1")) for line in alone), alone
    lacks = "cuMemcpy3DWithAttributesAsync"  # the null driver does not have it
    names = ["cuLaunchKernel", lacks]
    lines = programs.run(program, *names, NVSHARE_MEMORY_MODE=memory_mode).stdout.splitlines()
    assert [line for line in lines if lacks in line] == [f"{lacks} missing 1"] * 4
    assert all(line.endswith(("found 0", "missing 1")) for line in lines), lines
