"""Start-up that cannot succeed: one line that says what to do, exit code 2, nothing broken or left behind."""

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from nvshare.scheduler.instance_lock import InstanceLock
from support.daemon import Daemon, run_scheduler
from support.fixtures import StartDaemon


def ways(place: Path) -> list[str]:
    return [
        f"--socket={place}/run/scheduler.sock",
        f"--operator-socket={place}/operator/control.sock",
        "--nvml=off",
        "--kubernetes=off",
    ]


def refused(*options: str, **environment: str) -> str:
    return refused_in((), *options, **environment)


def refused_in(wrapper: tuple[str, ...], *options: str, **environment: str) -> str:
    done = run_scheduler(*options, wrapper=wrapper, **environment)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len([line for line in lines if line.startswith("nvshare-scheduler: ")]) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[-1]


CASES = {
    "a flag that there is not": (["--frobnicate"], {}, "--frobnicate"),
    "a value that cannot be": (["--policy", "lottery"], {}, "must be one of"),
    "a variable that cannot be": ([], {"NVSHARE_GRACE_SECONDS": "a\nb"}, "NVSHARE_GRACE_SECONDS is"),
    "a file that is not there": (["--config", "/nowhere\nat all"], {}, "cannot read /nowhere?at all"),
    "a journal in no directory": (["--journal-file", "/nowhere/journal"], {}, "cannot write the journal file"),
    "a journal that is a directory": (["--journal-file", "/tmp"], {}, "cannot write the journal file"),
    "an address that is not here": (["--http", "192.0.2.1:9402"], {}, "cannot serve http at"),
    "a host's name that cannot be": (["--http", "a..b:9402"], {}, "cannot serve http at"),
    "Kubernetes outside a cluster": (["--kubernetes=on"], {}, "not a pod with a service account"),
}


@pytest.mark.parametrize(("options", "environment", "said"), CASES.values(), ids=CASES.keys())
def test_a_start_that_cannot_succeed_ends_with_one_line(
    tmp_path: Path, options: list[str], environment: dict[str, str], said: str
) -> None:
    assert said in refused(*ways(tmp_path), *options, **environment)
    assert not (tmp_path / "run" / "scheduler.sock").exists()
    assert not (tmp_path / "operator" / "control.sock").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot serve http at 127.0.0.1:{port}" in refused(*ways(tmp_path), f"--http=127.0.0.1:{port}")


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    assert "choose another directory" in refused(*ways(tmp_path))


def test_a_socket_path_that_is_a_directory_with_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run" / "scheduler.sock" / "precious").mkdir(parents=True)
    assert "cannot listen at" in refused(*ways(tmp_path))
    assert (tmp_path / "run" / "scheduler.sock" / "precious").is_dir()


def test_a_shared_directory_is_not_closed_to_others_for_the_operators_sake(tmp_path: Path) -> None:
    """`--operator-socket /tmp/control.sock` must not take /tmp away from everybody."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "somebody's").write_text("")
    options = [f"--socket={tmp_path}/run/s.sock", f"--operator-socket={shared}/control.sock", "--nvml=off"]
    assert "use a private directory" in refused(*options, "--kubernetes=off")
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_an_open_directory_that_holds_nothing_else_is_closed(tmp_path: Path, start_daemon: StartDaemon) -> None:
    operator = tmp_path / "operator"
    operator.mkdir()
    operator.chmod(0o755)
    daemon = start_daemon()
    assert stat.S_IMODE(operator.stat().st_mode) == 0o700
    daemon.ctl("status")


def test_an_open_directory_with_the_operators_limits_in_it_is_closed(tmp_path: Path, start_daemon: StartDaemon) -> None:
    """systemd opens a RuntimeDirectory again at every start of the service."""
    first = start_daemon()
    with first.client().register(name=b"limited"):
        first.ctl("limit", "limited", "4Gi")
    first.stop()
    operator = tmp_path / "operator"
    assert (operator / "limits.json").exists()
    operator.chmod(0o755)
    start_daemon().ctl("status")
    assert stat.S_IMODE(operator.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_an_open_directory_with_another_users_file_is_refused(tmp_path: Path) -> None:
    operator = tmp_path / "operator"
    operator.mkdir()
    operator.chmod(0o1777)
    (operator / "limits.json").write_text("{}")
    os.chown(operator / "limits.json", 65534, 65534)
    assert "use a private directory" in refused(*ways(tmp_path))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's program")
def test_a_directory_of_the_operator_that_this_user_cannot_list_is_refused() -> None:
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "operator").mkdir(mode=0o711)
        (place / "run").mkdir()
        for directory, mode in ((place, 0o755), (place / "run", 0o777)):
            directory.chmod(mode)
        assert "use a private directory" in refused_in(as_nobody, *ways(place))


READ_ONLY = """
mount -t tmpfs none "$1" && mkdir "$1/run" "$1/operator" && mount -o remount,ro "$1" && shift && exec "$@"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
@pytest.mark.parametrize("which", ["run", "operator"])
def test_a_read_only_disk_is_named(tmp_path: Path, which: str) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    paths = {"run": f"--socket={tmp_path}/run/s.sock", "operator": f"--operator-socket={tmp_path}/operator/c.sock"}
    paths[which] = paths[which].replace(str(tmp_path), str(mounted))
    wrapper = ("unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(mounted))
    assert "Read-only file system" in refused_in(wrapper, *paths.values(), "--nvml=off", "--kubernetes=off")


def test_the_directory_of_the_clients_socket_is_left_as_it_is(tmp_path: Path, start_daemon: StartDaemon) -> None:
    shared = tmp_path / "run"
    shared.mkdir()
    shared.chmod(0o1777)
    start_daemon().client().register()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_socket_path_of_the_greatest_length_works(tmp_path: Path, start_daemon: StartDaemon) -> None:
    """`x` is a name shorter than any that a process could make up beside it."""
    folder = tmp_path / ("d" * (107 - len(str(tmp_path)) - 3))
    path = folder / "x"
    assert len(str(path)) == 107
    daemon: Daemon = start_daemon("--socket", str(path))
    daemon.socket = str(path)
    daemon.client().register()


def test_help_names_every_setting_and_how_else_to_set_it() -> None:
    done = run_scheduler("--help")
    assert done.returncode == 0
    assert "--switch-time-mode" in done.stdout
    assert "NVSHARE_SWITCH_TIME_MODE" in done.stdout
    assert "SIGTERM" in done.stdout
    assert run_scheduler("--version").stdout.startswith("nvshare ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file system of its own")
def test_a_full_disk_costs_a_warning_and_not_the_start(start_daemon: StartDaemon, tmp_path: Path) -> None:
    place = tmp_path / "operator"
    place.mkdir()
    fill = f"mount -t tmpfs -o size=4k,mode=700 none {place} && head -c 4096 /dev/zero > {place}/control.sock.lock.full"
    daemon = start_daemon(wrapper=("unshare", "--mount", "bash", "-c", f'{fill}; exec "$0" "$@"'))
    with daemon.client().register() as client:
        client.take_lock()
    daemon.log.wait_for(r"cannot write .*control.sock.lock: No space left on device. The scheduler works without it")
    assert "Traceback" not in daemon.log.text


def test_a_scheduler_that_could_not_write_its_epoch_still_had_a_predecessor(tmp_path: Path) -> None:
    socket_path = tmp_path / "operator" / "control.sock"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", no_space)
        first = InstanceLock(socket_path)
        first.release()
    second = InstanceLock(socket_path)
    assert (first.had_predecessor, second.had_predecessor) == (False, True)
    assert second.epoch >= first.epoch
    second.release()


def no_space(*arguments: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
