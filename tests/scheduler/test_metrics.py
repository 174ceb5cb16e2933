"""Metrics as Prometheus reads them: per GPU, per client as long as there is one, histograms that add up."""

import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nvshare.core.actions import EndTurn
from nvshare.core.events import AlarmRang, GpuFound, UtilizationMeasured
from nvshare.core.model import SECOND, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import Snapshot, snapshot
from nvshare.journal import Step
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.observe.metrics import BOUNDS_S, MAX_GPUS, Metrics
from nvshare.scheduler.sources.cgroup_memory import MARGIN
from nvshare.wire import messages as wire
from support.cgroup_files import HostLimit
from support.client import GIB, entry, gpu_name
from support.daemon import Daemon
from support.fixtures import StartDaemon
from support.waiting import wait_until

GPU = gpu_name(0)
EMPTY = Snapshot(scheduling=True, settling=False, policy="fcfs", gpus=(), clients=())


def test_gauges_of_a_gpu_say_what_status_says(daemon: Daemon) -> None:
    with daemon.client().register(entry(0), entry(1)) as runs, daemon.client().register() as waits:
        runs.take_lock(10 * GIB)
        waits.request(8 * GIB, unswappable=GIB)
        waits.expect(wire.WaitForMem)
        assert daemon.metric("nvshare_gpu_running_clients", gpu=GPU) == 1
        assert daemon.metric("nvshare_gpu_waiting_clients", gpu=GPU) == 1
        assert daemon.metric("nvshare_gpu_memory_total_bytes", gpu=GPU) == 16 * GIB
        assert daemon.metric("nvshare_gpu_memory_running_bytes", gpu=GPU) == 10 * GIB
        assert daemon.metric("nvshare_gpu_memory_unswappable_bytes", gpu=GPU) == GIB
        assert daemon.metric("nvshare_gpu_running_clients", gpu=gpu_name(1)) == 0
        assert daemon.metric("nvshare_clients") == 2
        assert daemon.metric("nvshare_scheduling_enabled") == 1
        assert daemon.metric("nvshare_client_running", client=runs.name, gpu=GPU) == 1
        assert daemon.metric("nvshare_client_running", client=waits.name, gpu=GPU) == 0
        assert daemon.metric("nvshare_client_memory_bytes", client=waits.name) == 9 * GIB


def test_gpu_memory_that_the_host_cannot_take_has_a_figure(start_daemon: StartDaemon, tmp_path: Path) -> None:
    host = HostLimit(tmp_path / "cgroup")
    host.set(GIB)
    daemon = start_daemon("--http=127.0.0.1:0", "--host-memory=on", f"--cgroup-root={host.root}")

    def short() -> float | None:
        return daemon.metric("nvshare_client_host_memory_shortfall_bytes", gpu=GPU)

    with daemon.client().register() as client:
        client.take_lock(2 * GIB)
        wait_until(lambda: short() == 2 * GIB - (GIB - HostLimit.USED - MARGIN), "the figure is there", 60)
        host.set(8 * GIB)
        wait_until(lambda: short() == 0, "the host has enough", 60)


def test_a_gpu_is_known_by_index_and_model() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, GpuFound(GPU, 16 * GIB, 3, "NVIDIA A100"))
    text = b"".join(
        Metrics(ConnectionAdmission(max_connections=1, max_per_account=1)).render(snapshot(node, 0), ())
    ).decode()
    assert f'nvshare_gpu_info{{gpu="{GPU}",index="3",model="NVIDIA A100"}} 1.0' in text


def test_the_utilisation_of_a_gpu_has_a_row_once_nvml_has_reported_it() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, GpuFound("g", 16 * GIB))
    metrics = Metrics(ConnectionAdmission(max_connections=1, max_per_account=1))
    assert "_ratio{" not in b"".join(metrics.render(snapshot(node, 0), ())).decode()
    node.handle(SECOND, UtilizationMeasured("g", 40))
    text = b"".join(metrics.render(snapshot(node, SECOND), ())).decode()
    assert 'nvshare_gpu_utilization_ratio{gpu="g"} 0.4' in text
    assert 'nvshare_gpu_accounted_ratio{gpu="g"} 0.0' in text


def test_a_clients_series_end_with_it(daemon: Daemon) -> None:
    with daemon.client().register() as client:
        client.take_lock(GIB)
        assert f'client="{client.name}"' in daemon.metrics_text()
    daemon.log.wait_for("Client left")
    assert f'client="{client.name}"' not in daemon.metrics_text()
    assert daemon.metric("nvshare_clients") == 0


def test_a_client_has_its_weight_and_what_is_due_to_it(daemon: Daemon) -> None:
    with daemon.client().register() as one, daemon.client().register() as other:
        daemon.ctl("set-policy", "fair")
        one.take_lock(10 * GIB)
        assert daemon.metric("nvshare_client_weight", client=one.name) == 100
        assert daemon.metric("nvshare_client_due_ratio", client=one.name) == 1
        assert daemon.metric("nvshare_client_due_ratio", client=other.name) == 0
        other.request(10 * GIB)
        other.expect(wire.WaitForMem)
        assert daemon.metric("nvshare_client_due_ratio", client=other.name) == 0.5
        daemon.ctl("set-policy", "priority")
        assert daemon.metric("nvshare_client_due_ratio", client=other.name) == 0


def test_limits_steps_and_drops_are_counted(daemon: Daemon) -> None:
    with daemon.client().register() as one, daemon.client().register() as other:
        one.take_lock(10 * GIB)
        daemon.ctl("limit", one.name, "12Gi")
        assert daemon.metric("nvshare_limit_updates_total") == 2, "both connections are this process's"
        assert daemon.metric("nvshare_client_memory_limit_bytes", client=one.name) == 12 * GIB
        assert daemon.metric("nvshare_client_core_limit_ratio", client=one.name) == 0
        daemon.ctl("core-limit", one.name, "99")
        assert daemon.metric("nvshare_client_core_limit_ratio", client=other.name) == 0.99
        daemon.ctl("core-limit", one.name, "none")  # the lock is to be dropped for the quantum
        other.request(10 * GIB)
        daemon.ctl("set-tq", "1")
        one.hear_until(wire.DropLock)
        assert daemon.metric("nvshare_lock_drops_total", gpu=GPU, cause="quantum") == 1
        steps = daemon.metric("nvshare_steps_total")
        assert steps is not None
        assert steps >= 5


def test_histograms_add_up(daemon: Daemon) -> None:
    began = time.monotonic()
    with daemon.client().register() as client:
        for _ in range(5):
            client.release(client.take_lock())
        client.hear_all()
    families = {family.name: family for family in text_string_to_metric_families(daemon.metrics_text())}
    for name in ("nvshare_lock_wait_seconds", "nvshare_lock_hold_seconds"):
        samples = [sample for sample in families[name].samples if sample.labels["gpu"] == GPU]
        buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
        counts = [sample.value for sample in buckets]
        assert [float(sample.labels["le"]) for sample in buckets] == [*BOUNDS_S, float("inf")]
        assert counts == sorted(counts)
        (count,) = [sample.value for sample in samples if sample.name.endswith("_count")]
        (total,) = [sample.value for sample in samples if sample.name.endswith("_sum")]
        assert counts[-1] == count == 5
        assert 0 <= total < time.monotonic() - began


def test_every_family_has_help_and_a_type(daemon: Daemon) -> None:
    with daemon.client().register() as client:
        client.take_lock()
        for family in text_string_to_metric_families(daemon.metrics_text()):
            assert family.documentation
            assert family.type in ("gauge", "counter", "histogram")
            assert family.name.startswith("nvshare_")


def test_only_reading_is_possible_over_http(daemon: Daemon) -> None:
    with urllib.request.urlopen(daemon.http + "/healthz", timeout=60) as page:
        assert page.read() == b"ok\n"
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(daemon.http + "/metrics", data=b"x", timeout=60)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(daemon.http + "/etc/passwd", timeout=60)
    daemon.assert_alive()


def ended(gpu: str) -> Step:
    return Step(1, 0.0, AlarmRang(), (EndTurn(1, gpu, 1, 10, "revoked"),))


def test_gpus_beyond_all_measure_share_one_label_until_there_is_room() -> None:
    metrics = Metrics(ConnectionAdmission(max_connections=10, max_per_account=10))
    for number in range(3 * MAX_GPUS):
        metrics.observe(ended(f"GPU-{number}"))
    assert len(metrics.holds) == MAX_GPUS + 1
    assert metrics.revocations["other"] == 2 * MAX_GPUS
    list(metrics.families(EMPTY))
    assert set(metrics.holds) == {"other"}
    metrics.observe(ended("GPU-new"))
    assert metrics.revocations["GPU-new"] == 1


def test_moved_memory_is_counted_and_shown(daemon: Daemon) -> None:
    with daemon.client().register(version=wire.MOVES_SINCE) as client:
        client.take_lock(10 * GIB)
        client.send(wire.Moved(0, True, 2 * GIB, SECOND // 4), wire.Moved(0, False, 3 * GIB, SECOND // 2))
        daemon.log.wait_for("moved 3.00 GiB to")
        (status,) = daemon.status()["gpus"][0]["clients"]
        assert status["moved"] == {
            "in_bytes": 3 * GIB,
            "in_seconds": 0.5,
            "out_bytes": 2 * GIB,
            "out_seconds": 0.25,
        }
        assert daemon.metric("nvshare_moved_bytes_total", gpu=GPU, direction="out") == 2 * GIB
        assert daemon.metric("nvshare_move_seconds_total", gpu=GPU, direction="in") == 0.5
