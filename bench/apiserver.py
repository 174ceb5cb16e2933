"""The load of 1,000 nodes on a real API server: `make scale` (root; builds Kubernetes once).

etcd and the API server of tools/cluster, and nothing else of a cluster. Pods are on 1,000 nodes that do not exist.
2,000 annotations change while nobody watches. Then each node has the watcher that nvshare-scheduler has, in 4 processes
with 250 each, which all start at once. Then 10,000 annotations change, as fast as 8 writers can.

Latency, CPU and memory of the watchers and of the API server, and the requests by verb from the audit log, are
reported. It fails if a change does not come to its watcher, or if a watcher lists again after a list that succeeded."""

import http.client
import json
import multiprocessing
import os
import ssl
import statistics
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from threading import local

sys.path.insert(0, str(Path(__file__).parents[1] / "tools" / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1]))

import cluster
from bench.pod_watchers import Figures, resident, run
from nvshare.kube.annotations import MEMORY_LIMIT
from nvshare.kube.client import Server
from nvshare.record import Record
from settings import LOGS, PKI, SERVICE_IP

NODES = [f"scale-{number:04}" for number in range(1000)]
PROCESSES = 4
CHANGES = 10_000
UNWATCHED_CHANGES = 2_000
WRITERS = 8
IDLE_S = 20
FIRST_LIMIT = 1 << 30
AGENT = "nvshare-scheduler"
_WRITER = "scale"
_AUDIT = LOGS / "audit.log"
_TICKS = os.sysconf("SC_CLK_TCK")
_connections = local()


def main() -> None:
    _AUDIT.unlink(missing_ok=True)
    cluster.up_api_server()
    try:
        measure()
    finally:
        cluster.down()


class Moment(Record, frozen=True):
    """The figures of the processes that watch, and of the API server: CPU seconds and resident bytes."""

    watchers: list[Figures]
    server_cpu_s: float
    server_resident: int


class Measured(Record, frozen=True):
    created: Moment
    unwatched: Moment
    """After the changes that nobody watched; the processes have no watcher yet."""
    listed: Moment
    quiet: Moment
    after: Moment
    started_s: float
    changed_s: float
    late_s: list[float]
    """Of each change, sorted."""


def measure() -> None:
    server = Server(host=SERVICE_IP, port=443, token_path=_token(), tls=True, ca_path=PKI / "ca.crt")
    with ThreadPoolExecutor(WRITERS) as pool, ExitStack() as stack:
        list(pool.map(_create, NODES))
        created = _moment([])
        list(pool.map(_change_unwatched, range(UNWATCHED_CHANGES)))
        pipes = [_start(stack, server, NODES[at::PROCESSES]) for at in range(PROCESSES)]
        unwatched = _moment([_figures(pipe) for pipe in pipes])
        began = time.monotonic()
        for pipe in pipes:
            pipe.send(True)
        figures = [_figures(pipe) for pipe in pipes]
        started_s = time.monotonic() - began
        listed = _moment(figures)
        time.sleep(IDLE_S)  # nothing changes
        quiet = _moment([_ask(pipe) for pipe in pipes])
        began = time.monotonic()
        sent = list(pool.map(_change, range(CHANGES)))
        changed_s = time.monotonic() - began
        after = _moment(_all_came(pipes))
    came_at = {limit: when for one in after.watchers for limit, when in one.came_at.items()}
    late_s = sorted(came_at[FIRST_LIMIT + number] - when for number, when in enumerate(sent))
    report(Measured(created, unwatched, listed, quiet, after, started_s, changed_s, late_s))


def report(it: Measured) -> None:
    nodes = len(NODES)
    late = [1000 * seconds for seconds in (statistics.median(it.late_s), it.late_s[-CHANGES // 100], it.late_s[-1])]
    _print("load of the machine", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    _print("all watchers start at once", f"all watch after {it.started_s:.1f} s")
    _print("changes", f"{CHANGES} in {it.changed_s:.0f} s by {WRITERS} writers")
    _print("from the request to the watcher", "p50 {:.0f} ms, p99 {:.0f} ms, most {:.0f} ms".format(*late))
    _print("watcher, CPU of one change", f"{1e6 * _cpu(it.quiet, it.after) / CHANGES:.0f} us")
    _print("watcher, CPU of list and watch", f"{1e3 * _cpu(it.unwatched, it.listed) / nodes:.1f} ms")
    _print("watcher, CPU while nothing changes", f"{1e6 * _cpu(it.listed, it.quiet) / nodes / IDLE_S:.1f} us a second")
    before, now = (sum(one.resident for one in moment.watchers) for moment in (it.unwatched, it.listed))
    _print("watcher, memory", f"{(now - before) / nodes / 1024:.0f} KiB; its process {before // PROCESSES >> 20} MiB")
    _report_server(it)
    requests = _requests()
    _print("requests in the audit log", ", ".join(f"{name} {count}" for name, count in sorted(requests.items())))
    if requests["list"] != nodes:
        sys.exit(f"scale: {nodes} watchers listed {requests['list']} times, not counting refused lists")


def _report_server(it: Measured) -> None:
    nodes = len(NODES)
    sizes = [moment.server_resident for moment in (it.unwatched, it.listed, it.quiet, it.after)]
    _print("API server, memory of a watch", f"{(sizes[1] - sizes[0]) / nodes / 1024:.0f} KiB")
    before, *others = (str(size >> 20) for size in sizes)
    _print("API server, memory", "{} MiB; watched {}, idle {}, after the changes {}".format(before, *others))
    _print("API server, CPU of list and watch", f"{1e3 * _server_cpu(it.unwatched, it.listed) / nodes:.1f} ms")
    _print(
        "API server, CPU while nothing changes", f"{100 * _server_cpu(it.listed, it.quiet) / IDLE_S:.1f} % of a core"
    )
    unwatched_ms = 1e3 * _server_cpu(it.created, it.unwatched) / UNWATCHED_CHANGES
    watched_ms = 1e3 * _server_cpu(it.quiet, it.after) / CHANGES
    _print("API server, CPU of one change", f"{watched_ms:.2f} ms; while nobody watches {unwatched_ms:.2f} ms")


def _print(name: str, value: str) -> None:
    print(f"{name:<40}{value}", flush=True)


def _cpu(before: Moment, after: Moment) -> float:
    return sum(one.cpu_s for one in after.watchers) - sum(one.cpu_s for one in before.watchers)


def _server_cpu(before: Moment, after: Moment) -> float:
    return after.server_cpu_s - before.server_cpu_s


def _moment(watchers: list[Figures]) -> Moment:
    process = Path("/proc") / str(cluster.pid_of("kube-apiserver"))
    fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    return Moment(watchers, (int(fields[11]) + int(fields[12])) / _TICKS, resident(process))


# The watchers.


def _start(stack: ExitStack, server: Server, nodes: list[str]) -> Connection:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run, args=(server, nodes, theirs), daemon=True)
    process.start()
    stack.callback(process.join, 30)
    stack.callback(ours.send, False)
    return ours


def _figures(pipe: Connection) -> Figures:
    if not pipe.poll(300):
        raise TimeoutError("a process of watchers says nothing")
    figures = pipe.recv()
    assert isinstance(figures, Figures)
    return figures


def _ask(pipe: Connection) -> Figures:
    pipe.send(True)
    return _figures(pipe)


def _all_came(pipes: list[Connection]) -> list[Figures]:
    deadline = time.monotonic() + 120
    while True:
        figures = [_ask(pipe) for pipe in pipes]
        came = sum(len(one.came_at) for one in figures)
        if came == CHANGES:
            return figures
        if time.monotonic() > deadline:
            raise TimeoutError(f"of {CHANGES} changes {came} came")
        time.sleep(0.5)


# The API server.


def _token() -> Path:
    """Of a service account that may read pods, in a file as kubelet gives it to the scheduler."""
    for name in ("default", AGENT):
        cluster.kubectl("create", "serviceaccount", name)
    # A role of our own: without the controller manager the aggregated ones are empty.
    cluster.kubectl("create", "clusterrole", AGENT, "--verb=get,list,watch", "--resource=pods")
    cluster.kubectl(
        "create", "clusterrolebinding", AGENT, f"--clusterrole={AGENT}", f"--serviceaccount=default:{AGENT}"
    )
    path = PKI / "watcher.token"
    path.write_text(cluster.kubectl("create", "token", AGENT, "--duration=1h"))
    return path


def _create(node: str) -> None:
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvshare.com/gpu": "1"}}}
    spec = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node}, "spec": spec}
    _request("POST", "/api/v1/namespaces/default/pods", pod, "application/json")


def _change_unwatched(number: int) -> None:
    _annotate(number, "example.com/scale", str(number))


def _change(number: int) -> float:
    """Change one annotation to a limit that is this change's only; when it was sent."""
    began = time.monotonic()
    _annotate(number, MEMORY_LIMIT, str(FIRST_LIMIT + number))
    return began


def _annotate(number: int, key: str, value: str) -> None:
    path = f"/api/v1/namespaces/default/pods/{NODES[number % len(NODES)]}"
    _request("PATCH", path, {"metadata": {"annotations": {key: value}}}, "application/merge-patch+json")


def _request(method: str, path: str, body: object, kind: str) -> None:
    if not hasattr(_connections, "one"):
        context = ssl.create_default_context(cafile=PKI / "ca.crt")
        context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
        _connections.one = http.client.HTTPSConnection(SERVICE_IP, 443, timeout=60, context=context)
    _connections.one.request(method, path, json.dumps(body), {"Content-Type": kind, "User-Agent": _WRITER})
    answer = _connections.one.getresponse()
    text = answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")


def _requests() -> Counter[str]:
    """Of the watchers and of the writers, by verb. A watch has an entry when it begins and another when it ends."""
    verbs: Counter[str] = Counter()
    for line in _AUDIT.read_text().splitlines():
        entry = json.loads(line)
        is_refused = entry.get("responseStatus", {}).get("code", 200) >= 400
        stage = "ResponseStarted" if entry["verb"] == "watch" and not is_refused else "ResponseComplete"
        if entry.get("userAgent") in (AGENT, _WRITER) and entry["stage"] == stage:
            verbs[entry["verb"] + (", refused" if is_refused else "")] += 1
    return verbs


if __name__ == "__main__":
    main()
