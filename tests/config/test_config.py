"""Settings: where they come from, which source counts, and what is said about a wrong one."""

import re
from pathlib import Path
from typing import get_args

import pytest

from nvshare.config import OPTIONS, Config, ConfigError, load, parser
from nvshare.core.model import ModeName
from nvshare.core.modes import MODES
from nvshare.core.queue.policies import POLICIES


def write(place: Path, text: str | bytes) -> str:
    path = place / "nvshare.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_without_any_word_the_defaults_count() -> None:
    config = load([], {})
    assert config.socket == "/var/run/nvshare/scheduler.sock"
    assert config.operator_socket == "/run/nvshare-operator/control.sock"
    assert (config.switch_time_mode, config.switch_time_fixed, config.switch_time_multiplier) == ("balanced", 60, 5)
    assert (config.memory_reserve_percent, config.grace_seconds, config.settle_seconds) == (10, 10.0, 2.0)
    assert config.card_reserve is None
    assert (config.policy, config.debug, config.http) == ("priority", False, "")


def test_the_choices_are_the_modes_and_policies_of_the_core() -> None:
    shown = {option.name: option.metavar.split("|") for option in OPTIONS}
    assert set(shown["switch_time_mode"]) == set(get_args(ModeName)) == set(MODES)
    assert set(shown["policy"]) == set(POLICIES)


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'switch_time_fixed = 10\nswitch_time_multiplier = 2\npolicy = "fair"\ndebug = true\n')
    environment = {"NVSHARE_CONFIG": path, "NVSHARE_SWITCH_TIME_FIXED": "20", "NVSHARE_SWITCH_TIME_MULTIPLIER": "3"}
    config = load(["--switch-time-fixed", "30"], environment)
    assert (config.switch_time_fixed, config.switch_time_multiplier, config.policy) == (30, 3, "fair")
    assert config.debug


def test_the_flag_config_beats_its_variable(tmp_path: Path) -> None:
    path = write(tmp_path, "grace_seconds = 1.5\n")
    assert load(["--config", path], {"NVSHARE_CONFIG": "/nowhere"}).grace_seconds == 1.5


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_setting_has_a_field_a_flag_a_variable_and_a_line_of_help(option: object) -> None:
    name = option.name  # type: ignore[attr-defined]
    assert name in Config.__struct_fields__
    text = " ".join(parser().format_help().split())
    assert f"--{name.replace('_', '-')} " in text
    default = option.default  # type: ignore[attr-defined]
    by_flag = load([f"--{name.replace('_', '-')}={default}"], {})
    by_variable = load([], {f"NVSHARE_{name.upper()}": default})
    assert by_flag == by_variable == load([], {})


CHOICES = {
    "--switch-time-mode": "balanced|auto|fixed|adaptive",
    "--policy": "fcfs|fair|priority",
    "--log-level": "debug|info|warning|error",
    "--log-format": "text|json",
    "--kubernetes": "auto|on|off",
    "--nvml": "auto|on|off",
}


@pytest.mark.parametrize("flag", CHOICES)
def test_the_help_lists_the_values_of_a_choice_and_each_is_taken(flag: str) -> None:
    assert f"{flag} {CHOICES[flag]} " in " ".join(parser().format_help().split())
    for value in CHOICES[flag].split("|"):
        assert getattr(load([flag, value], {}), flag[2:].replace("-", "_")) == value


def test_the_help_names_the_live_page() -> None:
    assert "--http ADDRESS:PORT address of the live page, /metrics" in " ".join(parser().format_help().split())


def test_every_field_is_a_setting() -> None:
    assert {option.name for option in OPTIONS} == set(Config.__struct_fields__)


WRONG_FLAGS = {
    "not a number": (["--switch-time-fixed", "soon"], "--switch-time-fixed is 'soon'"),
    "not a whole number": (["--switch-time-fixed", "1.5"], "it must be a whole number"),
    "too small": (["--switch-time-fixed=0"], "it must be between 1 and 86400"),
    "too big": (["--memory-reserve-percent", "91"], "it must be between 0 and 90"),
    "not an amount": (
        ["--card-reserve", "1GB"],
        "--card-reserve is '1GB': it has an unknown suffix 'GB'; was Gi meant?",
    ),
    "neither an amount nor auto": (
        ["--card-reserve", "much"],
        "it has no digits; auto, or an amount such as 512Mi, is expected",
    ),
    "a negative amount": (["--card-reserve=-1Gi"], "it is negative"),
    "negative": (["--grace-seconds=-1"], "it must be between 0.1 and 600 seconds"),
    "not a time": (["--grace-seconds", "1m"], "it must be a number"),
    "no number at all": (["--grace-seconds", "nan"], "it must be between"),
    "endless": (["--settle-seconds", "inf"], "it must be between"),
    "not a choice": (["--policy", "lottery"], "it must be one of fcfs, fair, priority"),
    "not a mode": (["--switch-time-mode", ""], "it must be one of balanced, auto"),
    "not yes or no": (["--debug", "maybe"], "it must be 1 or 0"),
    "a relative path": (["--socket", "run/s.sock"], "it must be an absolute path"),
    "a path too long for a socket": (["--socket", "/" + "x" * 107], "it must be at most 107 bytes"),
    "one path for two sockets": (["--socket=/run/s", "--operator-socket=/run/s"], "name the same path"),
    "a path with a zero": (["--socket", "/run/\0x"], "it must not contain a zero byte"),
    "not an address": (["--http", "9402"], "it must be ADDRESS:PORT"),
    "not a port": (["--http", "localhost:http"], "it must be ADDRESS:PORT"),
    "not a port either": (["--http", "localhost:70000"], "it must be ADDRESS:PORT"),
    "an unknown flag": (["--quantum", "3"], "--quantum"),
    "a flag cut short": (["--pol", "fair"], "--pol"),
    "a flag without its value": (["--policy"], "--policy"),
    "a word that is no flag": (["start"], "start"),
}


@pytest.mark.parametrize(("flags", "said"), WRONG_FLAGS.values(), ids=WRONG_FLAGS.keys())
def test_a_wrong_flag_is_named_in_one_line(flags: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)) as error:
        load(flags, {})
    assert "\n" not in str(error.value)


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="NVSHARE_SWITCH_TIME_MULTIPLIER is 'five'"):
        load([], {"NVSHARE_SWITCH_TIME_MULTIPLIER": "five"})


def test_a_variable_that_is_not_utf8_is_named() -> None:
    with pytest.raises(ConfigError, match="NVSHARE_POLICY is"):
        load([], {"NVSHARE_POLICY": b"\xff".decode("utf-8", "surrogateescape")})


def test_a_path_that_is_not_utf8_is_a_path() -> None:
    path = b"/run/\xff.sock".decode("utf-8", "surrogateescape")
    assert load([], {"NVSHARE_SOCKET": path}).socket == path


WRONG_FILES: dict[str, tuple[str | bytes, str]] = {
    "not TOML": ("policy fair", "is not valid TOML"),
    "not text": (b"\xff\xfe\x00", "is not valid TOML"),
    "an unknown setting": ("quantum = 3", "unknown setting quantum"),
    "a section": ("[scheduler]\npolicy = 'fair'", "unknown setting scheduler"),
    "a list": ("policy = ['fair']", "policy must be a string, a number or true/false"),
    "a wrong value": ("policy = 'lottery'", "policy in "),
    "a value of another kind": ("switch_time_fixed = true", "it must be a whole number"),
    "brackets without end": ("policy = " + "[" * 100_000, "is not valid TOML"),
    "a number that cannot be read": ("switch_time_fixed = " + "9" * 5000, "a number has more than 4300 digits"),
    "a number that cannot be written": (
        "switch_time_fixed = 0x" + "f" * 4000,
        "switch_time_fixed is a number with more than 4300 digits",
    ),
}


@pytest.mark.parametrize(("text", "said"), WRONG_FILES.values(), ids=WRONG_FILES.keys())
def test_a_wrong_file_is_named_in_one_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load(["--config", path], {})
    assert path in str(error.value)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("path", "said"), [("/nowhere/at/all", "No such file"), ("/tmp", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot read {path}: {said}"):
        load([], {"NVSHARE_CONFIG": path})


@pytest.mark.parametrize(
    ("text", "address"), [(":9402", "127.0.0.1:9402"), ("[::1]:0", "[::1]:0"), ("0.0.0.0:1", "0.0.0.0:1"), ("", "")]
)
def test_addresses(text: str, address: str) -> None:
    assert load(["--http", text], {}).http == address
