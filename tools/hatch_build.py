"""Compiles the C parts when the package is built, so that `pip install .` yields a package that works.

One source of truth: native/Makefile. The hook only calls it and tells hatchling what came out."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `make -C native` and puts its products into the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if shutil.which("make") is None or shutil.which("cc") is None:
            raise SystemExit("nvshare: building needs a C compiler and make: apt-get install gcc libc6-dev make")
        root = Path(self.root)
        out = root / "src" / "nvshare" / "_native"
        subprocess.run(["make", "-s", "-j2", "-C", str(root / "native"), f"OUT={out}"], check=True)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["artifacts"].append("src/nvshare/_native/**")
