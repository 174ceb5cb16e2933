"""The scheduler's settings: one table, from which the flags, the environment, the file and the help all come.

A flag beats the environment, the environment beats the file, the file beats the default. What comes out is frozen and
cannot be wrong; what goes wrong is the user's to mend and says so in one line (ConfigError)."""

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nvshare import __version__
from nvshare.record import Record

DEFAULT_SOCKET = "/var/run/nvshare/scheduler.sock"
DEFAULT_OPERATOR_SOCKET = "/run/nvshare-operator/control.sock"
SOCKET_VARIABLE = "NVSHARE_SOCKET"
OPERATOR_SOCKET_VARIABLE = "NVSHARE_OPERATOR_SOCKET"


class ConfigError(Exception):
    """A setting that cannot be; the text names it and the remedy."""


class Config(Record, frozen=True):
    """All settings of nvshare-scheduler, checked."""

    socket: str
    operator_socket: str
    switch_time_mode: str
    switch_time_fixed: int
    switch_time_multiplier: int
    memory_reserve_percent: int
    policy: str
    grace_seconds: float
    settle_seconds: float
    long_wait_seconds: float
    patience_seconds: float
    move_seconds_per_gib: float
    max_clients: int
    max_clients_per_group: int
    journal_steps: int
    journal_file: str
    journal_file_bytes: int
    log_level: str
    log_format: str
    http: str
    kubernetes: str
    node_name: str
    nvml: str
    exit_when_unused: float
    debug: bool


class Option(Record, frozen=True):
    """One setting: its field in Config, how its text is read, and what it is for."""

    name: str
    default: str
    parse: Callable[[str], Any]
    help: str
    metavar: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "NVSHARE_" + self.name.upper()


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}")
        return value

    return parse


def _seconds(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        if not least <= value <= most:
            raise ValueError(f"must be between {least:g} and {most:g} seconds")
        return value

    return parse


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("must be an absolute path")
    if "\0" in text:
        raise ValueError("must not hold a zero byte")
    if len(text.encode("utf-8", "surrogateescape")) > 107:
        raise ValueError("must be at most 107 bytes long, as the kernel has it for sockets")
    return text


def _optional_path(text: str) -> str:
    return text and _path(text)


def _flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("must be 1 or 0")


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if text and not (colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError("must be ADDRESS:PORT or :PORT, e.g. 127.0.0.1:9402")
    return text if host or not text else f"127.0.0.1:{port}"


def _one_of(name: str, default: str, choices: str, text: str) -> Option:
    """A setting with a few values (`on|off`), which the help shows as they are written here."""
    return Option(name, default, _choice(*choices.split("|")), text, choices)


OPTIONS: tuple[Option, ...] = (
    Option("socket", DEFAULT_SOCKET, _path, "where programs connect", "PATH"),
    Option("operator_socket", DEFAULT_OPERATOR_SOCKET, _path, "where nvsharectl connects; keep it out of pods", "PATH"),
    _one_of(
        "switch_time_mode",
        "auto",
        "auto|fixed|adaptive",
        "how the quantum is found: by memory, fixed, or by measured cost",
    ),
    Option("switch_time_fixed", "60", _integer(1, 86_400), "the quantum in mode fixed, in seconds", "SECONDS"),
    Option("switch_time_multiplier", "5", _integer(1, 1000), "mode auto: seconds for each GiB that runs", "N"),
    Option("memory_reserve_percent", "10", _integer(0, 90), "part of each GPU's memory that is not planned with", "N"),
    _one_of("policy", "fcfs", "fcfs|fair|priority", "who goes first: in order, by share, by priority"),
    Option("grace_seconds", "10", _seconds(0.1, 600), "how long a program may take to give a lock back", "SECONDS"),
    Option("settle_seconds", "2", _seconds(0, 60), "after a restart: how long programs may claim locks", "SECONDS"),
    Option("long_wait_seconds", "30", _seconds(1, 3600), "when a wait is reported to the user", "SECONDS"),
    Option("patience_seconds", "5", _seconds(0.1, 600), "how long a program may take to register", "SECONDS"),
    Option(
        "move_seconds_per_gib", "1", _seconds(0, 1000), "what moving memory costs; weighs taking back an idle lock", "S"
    ),
    Option("max_clients", "4096", _integer(1, 100_000), "connections at most", "N"),
    Option(
        "max_clients_per_group", "1024", _integer(1, 100_000), "connections at most for a pod, container or user", "N"
    ),
    Option("journal_steps", "10000", _integer(10, 1_000_000), "steps remembered for `events` and `story`", "N"),
    Option("journal_file", "", _optional_path, "write every step here too, as JSON lines", "PATH"),
    Option(
        "journal_file_bytes", "67108864", _integer(65_536, 1 << 40), "the journal file starts anew beyond this", "N"
    ),
    _one_of("log_level", "info", "debug|info|warning|error", "how much is logged"),
    _one_of("log_format", "text", "text|json", "how it is logged"),
    Option("http", "", _address, "serve the live page, /metrics and /healthz here", "ADDRESS:PORT"),
    _one_of("kubernetes", "auto", "auto|on|off", "follow pod annotations; auto: if run inside a cluster"),
    Option("node_name", "", str, "this node's name in Kubernetes", "NAME"),
    _one_of("nvml", "auto", "auto|on|off", "ask NVML for GPUs; auto: if it is there"),
    Option("exit_when_unused", "0", _seconds(0, 86_400), "end after this long without programs; 0: never", "SECONDS"),
    Option("debug", "0", _flag, "log at level debug, whatever log-level says", "0|1"),
)

_EPILOG = """\
Each option can also be set in the environment (its name in capitals, NVSHARE_ before it: NVSHARE_SWITCH_TIME_MODE) or
in a TOML file given by --config or NVSHARE_CONFIG (switch_time_mode = "fixed"). A flag beats the environment, which
beats the file.

Signals: SIGTERM and SIGINT end the scheduler; running programs go on and register again with the next one."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as for every other setting, instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; `{self.prog} --help` lists the options")


def parser() -> argparse.ArgumentParser:
    """The command line, with every option's environment variable and default in its help."""
    made = _Parser(
        prog="nvshare-scheduler",
        description="Decides, for each GPU of this machine, which programs run now and which wait.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"nvshare {__version__}")
    made.add_argument("--config", metavar="PATH", help="a TOML file with any of these settings")
    for option in OPTIONS:
        shown = f"{option.help} (default: {option.default or 'none'})"
        made.add_argument(option.flag, dest=option.name, metavar=option.metavar, help=shown)
    return made


def load(argv: Sequence[str], environ: Mapping[str, str], options: Sequence[Option] = OPTIONS) -> Config:
    """The settings from all sources; ConfigError names the first one that is wrong and where it was set."""
    flags = vars(parser().parse_args(argv))
    path = flags["config"] or environ.get("NVSHARE_CONFIG", "")
    from_file = read_file(path, options) if path else {}
    values: dict[str, Any] = {}
    for option in options:
        where, text = _first(option, flags, environ, from_file, path)
        try:
            values[option.name] = option.parse(text)
        except ValueError as error:
            raise ConfigError(f"{where} is {text!r}, which cannot be used: it {error}") from None
    return Config(**values)


def read_file(path: str, options: Sequence[Option]) -> dict[str, str]:
    """The settings in a TOML file, as text."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    except ValueError:  # Python reads and writes whole numbers of up to 4,300 digits
        raise ConfigError(f"{path} is not TOML: a number has thousands of digits") from None
    known = {option.name for option in options}
    for name, value in table.items():
        if name not in known:
            raise ConfigError(f"{path}: no such setting: {name}; `nvshare-scheduler --help` lists them")
        if not isinstance(value, (str, int, float, bool)):
            raise ConfigError(f"{path}: {name} must be a text, a number or true/false")
    return {name: _text(f"{path}: {name}", value) for name, value in table.items()}


def _text(where: str, value: object) -> str:
    try:
        return str(value)
    except ValueError:  # written in base 16, a number can be read that is too long in base 10
        raise ConfigError(f"{where} is a number of thousands of digits") from None


def _first(
    option: Option, flags: Mapping[str, str | None], environ: Mapping[str, str], from_file: Mapping[str, str], path: str
) -> tuple[str, str]:
    flag = flags[option.name]
    if flag is not None:
        return option.flag, flag
    if option.variable in environ:
        return option.variable, environ[option.variable]
    if option.name in from_file:
        return f"{option.name} in {path}", from_file[option.name]
    return f"default of {option.flag}", option.default
