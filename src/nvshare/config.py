"""The scheduler's settings: one table defines the flags, the environment variables, the file and the help.

A flag overrides the environment, the environment overrides the file, the file overrides the default. The result is
immutable and valid; a wrong setting is reported to the user in one line (ConfigError)."""

import argparse
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nvshare import __version__
from nvshare import setting_values as read
from nvshare.record import Record

MAX_QUANTUM_S = 86_400
"""A day."""
DEFAULT_CONFIG = "/etc/nvshare/scheduler.toml"
"""Read if it exists and no other file is named."""
RUN_DIRECTORY = "/var/run/nvshare"
"""It has the socket for programs. On a node it also has the library and is mounted into containers at the same path."""
DEFAULT_SOCKET = f"{RUN_DIRECTORY}/scheduler.sock"
DEFAULT_OPERATOR_SOCKET = "/run/nvshare-operator/control.sock"
DEFAULT_READER_SOCKET = "/run/nvshare-status/status.sock"
SOCKET_VARIABLE = "NVSHARE_SOCKET"
OPERATOR_SOCKET_VARIABLE = "NVSHARE_OPERATOR_SOCKET"
READER_SOCKET_VARIABLE = "NVSHARE_READER_SOCKET"


class ConfigError(Exception):
    """A setting is wrong; the text names it and the remedy."""


class Config(Record, frozen=True):
    """All settings of nvshare-scheduler, checked."""

    socket: str
    operator_socket: str
    reader_socket: str
    switch_time_mode: str
    switch_time_fixed: int
    switch_time_multiplier: int
    memory_reserve_percent: int
    card_reserve: int | None
    host_memory: str
    cgroup_root: str
    live_shrink: str
    policy: str
    grace_seconds: float
    settle_seconds: float
    long_wait_seconds: float
    patience_seconds: float
    move_seconds_per_gib: float
    max_clients: int
    max_clients_per_group: int
    journal_steps: int
    usage_file: str
    journal_file: str
    journal_file_bytes: int
    log_level: str
    log_format: str
    http: str
    http_hosts: tuple[str, ...]
    kubernetes: str
    node_name: str
    resource_name: str
    annotation_above_claim: str
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


def _one_of(name: str, default: str, choices: str, text: str) -> Option:
    """A setting with a few values (`on|off`), which the help shows as they are written here."""
    return Option(name, default, read.choice(*choices.split("|")), text, choices)


OPTIONS: tuple[Option, ...] = (
    Option("socket", DEFAULT_SOCKET, read.path, "socket for programs", "PATH"),
    Option(
        "operator_socket",
        DEFAULT_OPERATOR_SOCKET,
        read.path,
        "socket for nvsharectl; must not be visible in pods",
        "PATH",
    ),
    Option(
        "reader_socket",
        "auto",
        read.path_or_off,
        f"socket where every user may read; auto: {DEFAULT_READER_SOCKET} if --operator-socket has its default",
        "PATH|auto|off",
    ),
    _one_of(
        "switch_time_mode",
        "balanced",
        "balanced|auto|fixed|adaptive",
        "how turns are divided: by measured cost and habits (balanced, adaptive), from memory (auto), fixed",
    ),
    Option("switch_time_fixed", "60", read.integer(1, MAX_QUANTUM_S), "mode fixed: the quantum", "SECONDS"),
    Option("switch_time_multiplier", "5", read.integer(1, 1000), "modes except fixed: seconds per GiB running", "N"),
    Option(
        "memory_reserve_percent", "10", read.integer(0, 90), "percentage of each GPU's memory that is kept free", "N"
    ),
    Option("card_reserve", "auto", read.bytes_or_auto, "part of each GPU that no program may allocate", "auto|512Mi"),
    _one_of(
        "host_memory",
        "auto",
        "auto|on|off",
        "count GPU memory that the host cannot take as unswappable; auto: if NVIDIA's driver is loaded",
    ),
    Option("cgroup_root", "/sys/fs/cgroup", read.path, "where the host's cgroups are mounted", "PATH"),
    _one_of("live_shrink", "on", "on|off", "a limit lowered below use moves memory in use to the host"),
    _one_of("policy", "priority", "fcfs|fair|priority", "order of the queue: arrival, GPU time by weight, priority"),
    Option("grace_seconds", "10", read.seconds(0.1, 600), "time in which a program must release a lock", "SECONDS"),
    Option(
        "settle_seconds",
        "2",
        read.seconds(0, 60),
        "time after a restart in which programs claim their locks",
        "SECONDS",
    ),
    Option("long_wait_seconds", "30", read.seconds(1, 3600), "a longer wait is reported to the user", "SECONDS"),
    Option(
        "patience_seconds",
        "5",
        read.seconds(0.1, 600),
        "time in which a program must register after it connects",
        "SECONDS",
    ),
    Option(
        "move_seconds_per_gib",
        "1",
        read.seconds(0, 1000),
        "cost of moving memory; decides when an idle holder loses its lock",
        "S",
    ),
    Option("max_clients", "4096", read.integer(1, 100_000), "maximum number of connections", "N"),
    Option(
        "max_clients_per_group",
        "1024",
        read.integer(1, 100_000),
        "maximum number of connections of a pod, container or user",
        "N",
    ),
    Option("journal_steps", "10000", read.integer(10, 1_000_000), "number of steps kept for `events` and `story`", "N"),
    Option("usage_file", "", read.optional_path, "file of `nvsharectl report`, if not beside operator-socket", "PATH"),
    Option("journal_file", "", read.optional_path, "also write every step to this file, as JSON lines", "PATH"),
    Option("journal_file_bytes", "67108864", read.integer(65_536, 1 << 40), "size at which it is begun again", "N"),
    _one_of("log_level", "info", "debug|info|warning|error", "lowest level that is logged; debug is as info"),
    _one_of("log_format", "text", "text|json", "format of the log"),
    Option("http", "", read.address, "address of the live page, /metrics and /healthz", "ADDRESS:PORT"),
    Option("http_hosts", "", read.names, "names under which the page may be asked for, besides addresses", "NAME,…"),
    _one_of("kubernetes", "auto", "auto|on|off", "follow pod annotations; auto: inside a cluster only"),
    Option("node_name", "", str, "name of this node in Kubernetes", "NAME"),
    _one_of("annotation_above_claim", "refuse", "refuse|allow", "limits above what a pod's ResourceClaim allows"),
    Option("resource_name", "nvshare.com/gpu", str, "name under which the device plugin offers slots", "NAME"),
    _one_of("nvml", "auto", "auto|on|off", "use NVML; auto: if it is available"),
    Option(
        "exit_when_unused", "0", read.seconds(0, 86_400), "exit after this time without programs; 0: never", "SECONDS"
    ),
    Option("debug", "0", read.flag, "log at least at level info; overrides log-level", "0|1"),
)

_EPILOG = """\
Each option can also be set by an environment variable (NVSHARE_ and its name
in capitals: NVSHARE_SWITCH_TIME_MODE), or in a TOML file that --config or
NVSHARE_CONFIG names (switch_time_mode = "fixed"). A flag overrides the
environment variable, which overrides the file.

Signals: SIGHUP reads the settings again; log level, mode and fixed quantum
change at once. SIGTERM and SIGINT stop the scheduler; running programs continue
and register with the next scheduler."""


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, as for every other setting, and does not print the usage."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; `{self.prog} --help` lists the options")


def parser() -> argparse.ArgumentParser:
    """The command line; the help shows every default."""
    made = _Parser(
        prog="nvshare-scheduler",
        description="The scheduler daemon. It decides which programs run on each GPU and which wait.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"nvshare {__version__}")
    made.add_argument(
        "--config",
        metavar="PATH",
        help=f"TOML file with any of these settings (default: {DEFAULT_CONFIG}, if it exists)",
    )
    made.add_argument(
        "--print-config", action=_PrintConfig, nargs=0, help="print such a file with all defaults, and exit"
    )
    for option in OPTIONS:
        shown = f"{option.help} (default: {option.default or 'none'})"
        made.add_argument(option.flag, dest=option.name, metavar=option.metavar, help=shown)
    return made


def load(argv: Sequence[str], environ: Mapping[str, str], options: Sequence[Option] = OPTIONS) -> Config:
    """The settings from all sources; ConfigError names the first one that is wrong and where it was set."""
    flags = vars(parser().parse_args(argv))
    path = flags["config"] or environ.get("NVSHARE_CONFIG", _default_file())
    from_file = read_file(path, options) if path else {}
    values: dict[str, Any] = {}
    for option in options:
        where, text = _first(option, flags, environ, from_file, path)
        try:
            values[option.name] = option.parse(text)
        except ValueError as error:
            raise ConfigError(f"{where} is {text!r}: it {error}") from None
    if values.get("socket") == values.get("operator_socket"):
        raise ConfigError("--socket and --operator-socket name the same path; programs and operators need one each")
    if values["reader_socket"] == "auto":
        is_default = values["operator_socket"] == DEFAULT_OPERATOR_SOCKET
        values["reader_socket"] = DEFAULT_READER_SOCKET if is_default else ""
    return Config(**values)


def _default_file() -> str:
    return DEFAULT_CONFIG if Path(DEFAULT_CONFIG).exists() else ""


def example() -> str:
    """A file with every setting and its default, each in a comment."""
    lines = ["# Settings of nvshare-scheduler. Remove the # before a setting to change it."]
    for option in OPTIONS:
        is_number = option.default.replace(".", "", 1).isdigit()
        value = option.default if is_number else f'"{option.default}"'
        lines += ["", f"# {option.help}", f"#{option.name} = {value}"]
    return "\n".join(lines) + "\n"


class _PrintConfig(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(example(), end="")  # noqa: T201 - as --help and --version, which argparse prints
        parser.exit(0)


def read_file(path: str, options: Sequence[Option]) -> dict[str, str]:
    """The settings in a TOML file, as text."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; check --config and NVSHARE_CONFIG") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None
    except ValueError:  # Python reads and writes whole numbers of up to 4,300 digits
        raise ConfigError(f"{path} is not valid TOML: a number has more than 4300 digits") from None
    known = {option.name for option in options}
    for name, value in table.items():
        if name not in known:
            raise ConfigError(f"{path}: unknown setting {name}; `nvshare-scheduler --help` lists the settings")
        if not isinstance(value, (str, int, float, bool)):
            raise ConfigError(f"{path}: {name} must be a string, a number or true/false")
    return {name: _text(f"{path}: {name}", value) for name, value in table.items()}


def _text(where: str, value: object) -> str:
    try:
        return str(value)
    except ValueError:  # written in base 16, a number can be read that is too long in base 10
        raise ConfigError(f"{where} is a number with more than 4300 digits") from None


def _first(
    option: Option, flags: Mapping[str, str | None], environ: Mapping[str, str], from_file: Mapping[str, str], path: str
) -> tuple[str, str]:
    if (flag := flags[option.name]) is not None:
        return option.flag, flag
    if option.variable in environ:
        return option.variable, environ[option.variable]
    if option.name in from_file:
        return f"{option.name} in {path}", from_file[option.name]
    return f"default of {option.flag}", option.default
