"""Compiles the C parts when the package is built, so that `pip install .` yields a package that works.

One source of truth: native/Makefile. The hook only calls it and tells hatchling what came out. tools/release.py has
compiled for other machines and made man pages before; it names the results in variables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the C parts into the wheel: those in NVSHARE_NATIVE, or what `make -C native` builds."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        platform = os.environ.get("NVSHARE_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        if pages := os.environ.get("NVSHARE_MAN"):
            build_data["shared_data"][pages] = "share/man"
        if native := os.environ.get("NVSHARE_NATIVE"):
            build_data["force_include"][native] = "nvshare/_native"
            return
        self._compile()
        if version != "editable":
            build_data["artifacts"].append("src/nvshare/_native/**")

    def _compile(self) -> None:
        if shutil.which("make") is None or shutil.which("cc") is None:
            raise SystemExit("nvshare: building needs a C compiler and make: apt-get install gcc libc6-dev make")
        root = Path(self.root)
        out = root / "src" / "nvshare" / "_native"
        subprocess.run(["make", "-s", "-j2", "-C", str(root / "native"), f"OUT={out}"], check=True)
