"""What a setting of the simulated GPU may be: each check gives the text for the environment, or says what is wrong."""

import re
from collections.abc import Callable, Mapping

from nvshare.quantity import QuantityError, parse_bytes
from nvshare.simgpu.cards import CARDS

MAX_GPUS = 16
CHECKPOINTS = (
    "works",
    "lock-fails",
    "checkpoint-fails",
    "restore-fails",
    "checkpoint-hangs",
    "restore-hangs",
    "refusal-breaks",
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s)?")


class SimConfigError(ValueError):
    """A setting the user gave cannot be used; the message names it and says what is allowed."""


def size(value: object) -> str:
    text = str(value)
    try:
        is_positive = parse_bytes(text) > 0
    except QuantityError as error:
        raise SimConfigError(f"{text!r} {error}") from None
    if not is_positive:
        raise SimConfigError(f"{text!r} is not a positive size")
    return text


def duration(value: object) -> str:
    text = str(value)
    if _DURATION.fullmatch(text) is None:
        raise SimConfigError(f"{text!r} is not a duration such as 5ms, 20us or 1s")
    return text


def count(value: object) -> str:
    text = str(value)
    if not text.isdecimal() or int(text) > MAX_GPUS:
        raise SimConfigError(f"{text!r} is not a number of GPUs from 0 to {MAX_GPUS}")
    return text


def scale(value: object) -> str:
    try:
        number = float(str(value))
    except ValueError:
        number = 0.0
    if not 1e-6 <= number <= 1e3:
        raise SimConfigError(f"{value!r} is not a scale from 0.000001 to 1000")
    return str(value)


def capability(value: object) -> str:
    text = str(value)
    if re.fullmatch(r"\d+\.\d", text) is None:
        raise SimConfigError(f"{text!r} is not a compute capability such as 8.0")
    return text


def one_of(first: str, second: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in (first, second):
            raise SimConfigError(f"{value!r} is neither {first!r} nor {second!r}")
        return str(value)

    return check


def flag(value: object) -> str:
    text = str(value).lower()
    if text not in ("0", "1", "true", "false"):
        raise SimConfigError(f"{value!r} is neither on (1) nor off (0)")
    return "1" if text in ("1", "true") else "0"


def card(value: object) -> str:
    if str(value).lower() not in CARDS:
        raise SimConfigError(f"{value!r} is none of {', '.join(CARDS)}")
    return str(value)


def checkpoint(value: object) -> str:
    if value not in CHECKPOINTS:
        raise SimConfigError(f"{value!r} is none of {', '.join(CHECKPOINTS)}")
    return str(value)


def link(value: object) -> str:
    text = str(value)
    if text != "0" and re.fullmatch(r"[1-6]x(1|2|4|8|16)", text) is None:
        raise SimConfigError(f"{text!r} is neither 0 nor a generation and a width such as 3x16")
    return text


def kernels(value: object) -> str:
    """A table of kernel names and durations, or the text `name=5ms,other=1us`."""
    if isinstance(value, Mapping):
        pairs = [(str(name), str(time)) for name, time in value.items()]
    else:
        pairs = [(name, time) for name, _, time in (p.partition("=") for p in str(value).split(",") if p)]
    return ",".join(f"{name}={duration(time)}" for name, time in pairs)
