"""kubectl nvshare: the nodes' schedulers seen together, under the user's own rights.

It adds no service and no rights: everything goes through `kubectl`, so a user who may exec into the scheduler's pods
may look, and a user who may annotate a pod may limit it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click

from nvshare import __version__, admin
from nvshare.cli import streams
from nvshare.cli.ctl import render
from nvshare.cli.ctl.text_table import table
from nvshare.cli.group import Group, terminal_width
from nvshare.core.model import SECOND
from nvshare.kube.annotations import CORE_LIMIT, MEMORY_LIMIT
from nvshare.percentage import parse_percent
from nvshare.quantity import parse_bytes, size

_SELECTOR = "app.kubernetes.io/name=nvshare,app.kubernetes.io/component=scheduler"
_NODES_AT_ONCE = 16
_TIMEOUT_S = 30.0


class Kubectl:
    """The user's kubectl, with the flags it was given."""

    def __init__(self, flags: tuple[str, ...], system: str) -> None:
        self._command = [os.environ.get("KUBECTL", "kubectl"), *flags]
        self.system = system

    def run(self, *args: str) -> str:
        """Its output; if it fails, its own message and exit code."""
        try:
            done = subprocess.run(  # noqa: S603 - the user's own kubectl and arguments
                [*self._command, *args], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except FileNotFoundError:
            raise click.ClickException(f"{self._command[0]} is not on the PATH (or set KUBECTL)") from None
        except subprocess.TimeoutExpired:
            raise click.ClickException(f"no answer within {_TIMEOUT_S:.0f} s: kubectl {' '.join(args)}") from None
        if done.returncode != 0:
            raise click.ClickException(done.stderr.strip() or f"kubectl failed with {done.returncode}")
        return done.stdout

    def schedulers(self) -> dict[str, str]:
        """The running pod of the scheduler on each node."""
        answer = json.loads(self.run("get", "pods", "-n", self.system, "-l", _SELECTOR, "-o", "json"))
        return {
            pod["spec"]["nodeName"]: pod["metadata"]["name"]
            for pod in answer["items"]
            if pod.get("status", {}).get("phase") == "Running"
        }

    def status(self, pod: str) -> dict[str, Any]:
        """The status of one node's scheduler, or the reason why there is none."""
        try:
            text = self.run(
                "exec", "-n", self.system, pod, "-c", "scheduler", "--", "nvsharectl", "status", "-o", "json"
            )
            return dict(json.loads(text))
        except click.ClickException as error:
            return {"error": error.message, "gpus": []}
        except json.JSONDecodeError:
            return {"error": "its answer is not valid JSON", "gpus": []}

    def statuses(self, node: str | None) -> dict[str, dict[str, Any]]:
        """All nodes, or one, by name."""
        pods = self.schedulers()
        if node is not None:
            pods = {name: pod for name, pod in pods.items() if name == node}
        if not pods:
            where = f"on node {node}" if node else f"in namespace {self.system}"
            raise click.ClickException(f"no scheduler runs {where}; is nvshare installed? (--system-namespace)")
        with ThreadPoolExecutor(_NODES_AT_ONCE) as pool:
            return dict(zip(sorted(pods), pool.map(lambda name: self.status(pods[name]), sorted(pods)), strict=True))


def show(statuses: dict[str, dict[str, Any]], width: int | None = None) -> str:
    """All nodes as tables of GPUs, clients and claims, in `width` columns if it is given, and the nodes that did not
    answer."""
    gpus = [(node, gpu) for node, status in statuses.items() for gpu in status["gpus"]]
    head = ["NODE", "GPU", "MODEL", "UUID", "MEMORY", "RUNNING", "FREE", "RUN", "WAIT"]
    drop = ("UUID", "RUNNING", "MODEL")
    parts = [table(head, [_gpu_row(node, gpu) for node, gpu in gpus], width=width, drop=drop, cut=("NODE",))]
    clients = [_client_row(node, gpu, client) for node, gpu in gpus for client in gpu["clients"]]
    if clients:
        head = ["NODE", "WHO", "CLIENT", "NAME", "GPU", "STATE", "SINCE", "STARTS", "MEMORY", "LIMIT", "SHARE", "CORE"]
        unused = [at for at in (-1, -2) if all(row[at] == "-" for row in clients)]
        head, *clients = [
            [cell for at, cell in enumerate(row, -len(row)) if at not in unused] for row in (head, *clients)
        ]
        drop = ("LIMIT", "SINCE", "CLIENT")
        parts.append(table(head, clients, width=width, drop=drop, cut=("NAME", "NODE", "WHO")))
    # An older scheduler's answer has no claims.
    claims = [_claim_row(node, claim) for node, status in statuses.items() for claim in status.get("claims", ())]
    if claims:
        head = ["NODE", "CLAIM", "GPU", "LIMIT", "USED", "PODS"]
        parts.append(table(head, claims, width=width, drop=("GPU",), cut=("NODE", "CLAIM")))
    parts += [f"{node}: {status['error']}" for node, status in statuses.items() if "error" in status]
    return "\n\n".join(parts)


def _gpu_row(node: str, gpu: dict[str, Any]) -> list[str]:
    return [
        node,
        _index(gpu),
        gpu.get("name", "").removeprefix("NVIDIA ") or "-",
        gpu["uuid"],
        size(gpu["total_memory"]),
        size(gpu["running_memory_usage"]),
        size(gpu["available_memory"]),
        str(gpu["running"]),
        str(gpu["waiting"]),
    ]


def _index(gpu: dict[str, Any]) -> str:
    """A scheduler of an earlier version does not say it."""
    index = gpu.get("index")
    return gpu["uuid"][: admin.SHORT_UUID] if index is None else str(index)


def _client_row(node: str, gpu: dict[str, Any], client: dict[str, Any]) -> list[str]:
    state = f"waiting {client['place']}" if client["state"] == "waiting" else client["state"]
    state = "held back" if client.get("held_back_by") and state != "paused" else state
    starts = client.get("expected_start_seconds")
    return [
        node,
        client["label"],
        client["id"],
        client["name"],
        _index(gpu),
        state,
        render.duration(int(client["since_seconds"] * SECOND)) if client["since_seconds"] else "-",
        "-" if starts is None else f"<{render.duration(int(starts * SECOND))}",
        size(client["memory_allocated"]),
        size(client["limit_bytes"]) if client["limit_bytes"] else "-",
        _had(client, "gpu_percent", "due_percent"),
        _had(client, "group_gpu_percent", "core_limit_percent"),
    ]


def _had(client: dict[str, Any], had: str, wanted: str) -> str:
    """What it had of the GPU's time, of what is due to it or is its limit; a scheduler of an earlier version does not
    say it."""
    return f"{client[had]:.0f}% of {client[wanted]:.0f}%" if client.get(wanted) and had in client else "-"


def _claim_row(node: str, claim: dict[str, Any]) -> list[str]:
    sizes = [size(claim["limit_bytes"]), size(claim["used_bytes"])]
    return [node, claim["label"], claim["gpu"][:12], *sizes, ", ".join(claim["pods"]) or "-"]


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--context", "context_name", metavar="NAME", help="kubectl's --context.")
@click.option("--kubeconfig", metavar="PATH", help="kubectl's --kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the pod, for `limit` and `core-limit`.")
@click.option("--system-namespace", default="nvshare-system", show_default=True, help="Namespace of nvshare.")
@click.version_option(__version__, prog_name="kubectl nvshare")
@click.pass_context
def cli(
    context: click.Context,
    context_name: str | None,
    kubeconfig: str | None,
    namespace: str | None,
    system_namespace: str,
) -> None:
    """Show the shared GPUs of all nodes, and set limits of pods."""
    given = {"--context": context_name, "--kubeconfig": kubeconfig}
    flags = tuple(f"{flag}={value}" for flag, value in given.items() if value)
    context.obj = Kubectl(flags, system_namespace)
    context.meta["namespace"] = namespace


@cli.command()
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@click.pass_obj
def status(kubectl: Kubectl, node: str | None, output: str) -> None:
    """Show the GPUs of each node, and running and waiting clients."""
    statuses = kubectl.statuses(node)
    click.echo(render.as_json(statuses) if output == "json" else show(statuses, terminal_width()))
    if any("error" in one for one in statuses.values()):
        sys.exit(1)


@cli.command()
@click.option("--node", metavar="NAME", help="Only this node.")
@click.option(
    "-i", "--interval", type=click.FloatRange(0.5), default=2.0, show_default=True, help="Seconds between updates."
)
@click.pass_obj
def top(kubectl: Kubectl, node: str | None, interval: float) -> None:
    """Show the status continuously, until interrupted."""
    while True:
        text = show(kubectl.statuses(node), terminal_width())
        click.clear()
        click.echo(text)
        try:
            time.sleep(interval)
        except KeyboardInterrupt:
            return


@cli.command(short_help="Set or remove the memory limit of a running pod.")
@click.argument("pod")
@click.argument("size", metavar="SIZE|none")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the pod.")
@click.pass_context
def limit(context: click.Context, pod: str, size: str, namespace: str | None) -> None:
    """Set the memory limit of a running POD to SIZE on each GPU, e.g. 8Gi; `none` removes it.

    This sets the annotation nvshare.com/gpu-memory-limit. You need the permission to annotate the pod.
    """
    _annotate(context, pod, MEMORY_LIMIT, size, parse_bytes, namespace)


@cli.command("core-limit", short_help="Set or remove the limit of GPU time of a running pod.")
@click.argument("pod")
@click.argument("percent", metavar="PERCENT|none")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace of the pod.")
@click.pass_context
def core_limit(context: click.Context, pod: str, percent: str, namespace: str | None) -> None:
    """Set the limit of GPU time of a running POD to PERCENT of each GPU, from 1 to 100; `none` removes it.

    This sets the annotation nvshare.com/gpu-core-limit. You need the permission to annotate the pod.
    """
    _annotate(context, pod, CORE_LIMIT, percent, parse_percent, namespace)


def _annotate(
    context: click.Context, pod: str, key: str, value: str, parse: Callable[[str], int], namespace: str | None
) -> None:
    """Set the annotation to a value that can be read, or remove it."""
    if value != "none":
        try:
            parse(value)
        except ValueError as error:
            raise click.UsageError(f"{value!r} {error}") from None
    where = namespace or context.meta["namespace"]
    flags = ["-n", where] if where else []
    change = f"{key}-" if value == "none" else f"{key}={value}"
    click.echo(context.obj.run("annotate", "pod", pod, change, "--overwrite", *flags).strip())


def main() -> None:
    """The console script: kubectl finds it as `kubectl-nvshare` on the PATH."""
    streams.prepare()
    try:
        cli(prog_name="kubectl nvshare")
    except OSError as error:
        sys.stderr.write(f"kubectl nvshare: {streams.failure(error)}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
