"""SIGHUP: the settings are read again, and the log says what has changed."""

import signal
import tomllib
from pathlib import Path

import pytest

from nvshare.config import OPTIONS, example, load
from support.fixtures import StartDaemon


def test_what_can_change_does_and_every_difference_is_logged(start_daemon: StartDaemon, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.toml"
    file.write_text('switch_time_mode = "auto"\n')
    daemon = start_daemon("--config", str(file))
    with daemon.client().register():
        file.write_text('switch_time_mode = "fixed"\nswitch_time_fixed = 17\npolicy = "fair"\n')
        daemon.process.send_signal(signal.SIGHUP)
        daemon.log.wait_for("Setting switch_time_mode: auto -> fixed$")
        daemon.log.wait_for("Setting switch_time_fixed: 60 -> 17$")
        daemon.log.wait_for("Setting policy: priority -> fair; it takes effect after a restart$")
        daemon.log.wait_for("Quantum set to 17 s")
        gpu = daemon.status()["gpus"][0]
        assert (gpu["mode"], gpu["quantum_seconds"]) == ("fixed", 17)


def test_the_level_of_the_log_can_be_changed_in_both_directions(start_daemon: StartDaemon, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.toml"
    file.write_text('log_level = "warning"\n')
    daemon = start_daemon("--config", str(file))

    def read(level: str, quantum: int) -> None:
        file.write_text(f'log_level = "{level}"\nswitch_time_mode = "fixed"\nswitch_time_fixed = {quantum}\n')
        daemon.process.send_signal(signal.SIGHUP)

    read("info", 17)
    daemon.log.wait_for("Quantum set to 17 s")
    read("error", 17)
    daemon.log.wait_for("Setting log_level: info -> error")
    with daemon.client().register(name=b"unseen"):
        pass
    read("debug", 18)
    daemon.log.wait_for("Quantum set to 18 s")
    assert "unseen" not in daemon.log.text


def test_settings_that_are_wrong_change_nothing(start_daemon: StartDaemon, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.toml"
    file.write_text("")
    daemon = start_daemon("--config", str(file))
    file.write_text('policy = "lottery"\n')
    daemon.process.send_signal(signal.SIGHUP)
    daemon.log.wait_for("The settings stay as they are: .*lottery")
    file.write_text("")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.log.wait_for("none has changed")
    daemon.assert_alive()


def test_the_printed_file_has_every_setting_with_its_default(tmp_path: Path) -> None:
    lines = [line.removeprefix("#") for line in example().splitlines() if line.startswith("#") and " = " in line]
    text = "\n".join(line for line in lines if not line.startswith(" "))
    assert list(tomllib.loads(text)) == [option.name for option in OPTIONS]
    file = tmp_path / "all.toml"
    file.write_text(text)
    assert load(["--config", str(file)], {}) == load([], {})


def test_the_file_is_printed_to_be_redirected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        load(["--print-config"], {})
    assert ended.value.code == 0
    assert capsys.readouterr() == (example(), "")
