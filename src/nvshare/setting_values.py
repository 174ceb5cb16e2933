"""How the text of a setting is read, by kind; ValueError says what the text must be. Pure."""

from collections.abc import Callable

from nvshare.quantity import QuantityError, parse_bytes

MAX_SOCKET_PATH = 107
"""The longest path of a socket, in bytes; a limit of the kernel."""


def integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"must be between {least} and {most}")
        return value

    return parse


def seconds(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("must be a number") from None
        if not least <= value <= most:
            raise ValueError(f"must be between {least:g} and {most:g} seconds")
        return value

    return parse


def bytes_or_auto(text: str) -> int | None:
    try:
        return None if text == "auto" else parse_bytes(text)
    except QuantityError as error:
        raise ValueError(f"{error}; auto, or an amount such as 512Mi, is expected") from None


def choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError("must be an absolute path")
    if "\0" in text:
        raise ValueError("must not contain a zero byte")
    if len(text.encode("utf-8", "surrogateescape")) > MAX_SOCKET_PATH:
        raise ValueError(f"must be at most {MAX_SOCKET_PATH} bytes long, the kernel's limit for a socket")
    return text


def optional_path(text: str) -> str:
    return text and path(text)


def path_or_off(text: str) -> str:
    return "" if text == "off" else text if text == "auto" else path(text)


def flag(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("must be 1 or 0")


def names(text: str) -> tuple[str, ...]:
    return tuple(name.strip().rstrip(".").lower() for name in text.split(",") if name.strip())


def address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if text and not (colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):
        raise ValueError("must be ADDRESS:PORT or :PORT, e.g. 127.0.0.1:9464")
    return text if host or not text else f"127.0.0.1:{port}"
