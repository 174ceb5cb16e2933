"""Man pages of all programs, from the same texts as `--help`.

    python tools/man_pages.py DIRECTORY

`make release` puts them into the wheels. The programs must be importable, so a build in isolation cannot make them."""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from nvshare import __version__, config
from nvshare.cli import nvshare
from nvshare.cli.ctl import kubectl_nvshare, nvsharectl
from nvshare.dra.main import main as dra_driver
from nvshare.plugin.main import main as device_plugin

COMMANDS: dict[str, tuple[int, click.Command]] = {
    "nvshare": (1, nvshare.cli),
    "nvsharectl": (1, nvsharectl.cli),
    "kubectl-nvshare": (1, kubectl_nvshare.cli),
    "nvshare-device-plugin": (8, device_plugin),
    "nvshare-dra-driver": (8, dra_driver),
}
SCHEDULER = "nvshare-scheduler"
SCHEDULER_SECTION = 8


def pages() -> dict[str, str]:
    """Every page by its path below share/man."""
    made = {f"man{section}/{name}.{section}": _of_click(name, section, it) for name, (section, it) in COMMANDS.items()}
    made[f"man{SCHEDULER_SECTION}/{SCHEDULER}.{SCHEDULER_SECTION}"] = _of_scheduler()
    return made


def _of_click(name: str, section: int, command: click.Command) -> str:
    context = click.Context(command, info_name=name.replace("kubectl-", "kubectl "), **command.context_settings)
    lines = [*_head(name, section, _first_sentence(command)), *_synopsis(context)]
    lines += [".SH DESCRIPTION", *_prose(command.help or ""), *_options(context, ".SH OPTIONS")]
    commands = [line for child in _children(context) for line in _subcommand(child)]
    if commands:
        lines += [".SH COMMANDS", *commands]
    return "\n".join([*lines, *_see_also(name)]) + "\n"


def _of_scheduler() -> str:
    parser = config.parser()
    lines = [
        *_head(SCHEDULER, SCHEDULER_SECTION, parser.description or ""),
        ".SH SYNOPSIS",
        rf"\fB{_roff(SCHEDULER)}\fR [OPTIONS]",
    ]
    lines += [".SH DESCRIPTION", _roff(parser.description or ""), ".SH OPTIONS"]
    for action in parser._actions:  # argparse has no public list
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        lines += _item(", ".join(action.option_strings), metavar, action.help or "")
    lines += [".SH NOTES", *_prose(parser.epilog or "")]
    return "\n".join([*lines, *_see_also(SCHEDULER)]) + "\n"


def _head(name: str, section: int, purpose: str) -> list[str]:
    title = f'.TH {name.upper()} {section} "" "nvshare {__version__}" "nvshare"'
    return [title, ".SH NAME", rf"{_roff(name)} \- {_roff(purpose.rstrip('.'))}"]


def _see_also(name: str) -> list[str]:
    sections = {SCHEDULER: SCHEDULER_SECTION} | {other: section for other, (section, _) in COMMANDS.items()}
    others = [rf"\fB{_roff(other)}\fR({section})" for other, section in sorted(sections.items()) if other != name]
    return [".SH SEE ALSO", ",\n".join(others)]


def _synopsis(context: click.Context) -> list[str]:
    pieces = context.command.collect_usage_pieces(context)
    return [".SH SYNOPSIS", rf"\fB{_roff(context.command_path)}\fR {_roff(' '.join(pieces))}"]


def _children(context: click.Context) -> Iterator[click.Context]:
    """A context for each command of a group, also of groups within it."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if not command.hidden:
            child = click.Context(command, info_name=name, parent=context, **command.context_settings)
            yield child
            yield from _children(child)


def _subcommand(context: click.Context) -> list[str]:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    return [f".SS {_roff(usage)}", *_prose(context.command.help or ""), *_options(context, ".P")]


def _options(context: click.Context, heading: str) -> list[str]:
    records = [record for it in context.command.params if (record := it.get_help_record(context)) and record[1]]
    return [heading, *(line for names, text in records for line in _item(names, "", text))] if records else []


def _item(names: str, metavar: str, text: str) -> list[str]:
    return [".TP", rf"\fB{_roff(names)}\fR {_roff(metavar)}".rstrip(), _roff(" ".join(text.split()))]


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0]


def _prose(text: str) -> Iterator[str]:
    """Paragraphs. One that begins with a backspace keeps its lines, as in click."""
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text.partition("\f")[0].strip("\n"))):
        if number:
            yield ".P"
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            yield ".nf"
            yield from (_roff(line.strip("\b")) for line in lines[1:])
            yield ".fi"
        else:
            yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    """Text for troff: no line begins a request, and a hyphen can be copied as it is typed."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


def write(directory: Path) -> list[Path]:
    made = []
    for name, text in pages().items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        made.append(path)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    for path in write(parser.parse_args().directory):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
