"""Small container images made by hand, and any image brought into the cluster's containerd.

An image archive in Docker's format is a tar of three things: layers, a configuration that names their digests, and a
manifest that names the configuration. That is all that a static program needs."""

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from settings import CACHE, CONTAINERD_SOCKET, RUNTIME_BIN

_PAUSE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }
static void end(int number) { (void)number; _exit(0); }
int main(void) {
    signal(SIGCHLD, reap);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    for (;;) pause();
}
"""


def static_image(name: str, files: dict[str, Path], command: list[str]) -> Path:
    """An image of a few files; its archive's path."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("tmp", "etc", "proc", "sys", "dev", "bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for where, path in files.items():
            entry = tarfile.TarInfo(where.lstrip("/"))
            entry.size, entry.mode = path.stat().st_size, 0o755
            with path.open("rb") as content:
                tar.addfile(entry, content)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    configuration = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/bin:/usr/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    archive = CACHE / "images" / (name.replace("/", "_").replace(":", "_") + ".tar")
    archive.parent.mkdir(parents=True, exist_ok=True)
    parts = {"layer.tar": layer.getvalue(), "config.json": configuration, "manifest.json": manifest}
    with tarfile.open(archive, "w") as tar:
        for where, data in parts.items():
            entry = tarfile.TarInfo(where)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive


def pause_image(name: str) -> Path:
    """The program that holds a pod's namespaces open."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "pause.c", Path(folder) / "pause"
        source.write_text(_PAUSE)
        subprocess.run(["cc", "-O2", "-static", "-o", program, source], check=True)
        return static_image(name, {"/pause": program}, ["/pause"])


def import_image(archive: Path) -> None:
    """Give an archive's images to kubelet."""
    command = [
        str(RUNTIME_BIN / "ctr"),
        "--address",
        str(CONTAINERD_SOCKET),
        "-n",
        "k8s.io",
        "images",
        "import",
        str(archive),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"cannot import {archive}: {done.stderr}")
