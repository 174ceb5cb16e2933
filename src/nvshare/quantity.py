"""Amounts of memory as Kubernetes writes them: `8Gi`, `512Mi`, `2G`, `1073741824`, `1.5Gi`, `1e9`; and for people.
Pure.

Grammar and rounding (up to a whole byte) are those of Kubernetes' own quantities; the tests compare with a table that
its Go code made. Four things that Kubernetes accepts are refused or capped here, because as a memory limit they can
only be typing errors: no digits at all (`Gi` is 0 to Kubernetes), a negative amount, an amount under one byte (`512m`
is half a byte, not half a gigabyte), and amounts beyond any GPU, which may overflow there."""

import re
from fractions import Fraction

MAX_BYTES = 1 << 56
"""No GPU has more; larger amounts mean the same as this one."""

_SUFFIXES = {
    **{
        name: Fraction(1000) ** power
        for power, name in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{name: Fraction(1024) ** power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_KI, _MI, _GI = (int(_SUFFIXES[unit]) for unit in ("Ki", "Mi", "Gi"))
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]+)|([A-Za-z]*))", re.ASCII)
_MAX_EXPONENT = 100  # beyond this the result is 0 or MAX_BYTES, whatever the 64 characters say
_MAX_CHARACTERS = 64


class QuantityError(ValueError):
    """Not an amount of memory; the text says why, and what may have been meant."""


def parse_bytes(text: str) -> int:
    """The number of bytes; raises QuantityError."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        raise QuantityError("is not a quantity such as 8Gi, 512Mi, 2G or 1073741824")
    sign, whole, fraction, exponent, suffix = match.groups(default="")
    if not whole and not fraction:
        raise QuantityError("has no digits")
    number = Fraction(int(whole + fraction or "0"), 10 ** len(fraction)) * _scale(exponent, suffix)
    if sign == "-" and number:
        raise QuantityError("is negative")
    if 0 < number < 1:
        raise QuantityError("is less than one byte" + ("; was M (megabytes) meant?" if suffix == "m" else ""))
    return min(-(-number.numerator // number.denominator), MAX_BYTES)


def _scale(exponent: str, suffix: str) -> Fraction:
    if exponent:
        power = int(exponent[1:])
        return Fraction(10) ** max(-_MAX_EXPONENT, min(power, _MAX_EXPONENT))
    if suffix not in _SUFFIXES:
        raise QuantityError(f"has an unknown suffix {suffix!r}{_hint(suffix)}")
    return _SUFFIXES[suffix]


def _hint(suffix: str) -> str:
    """What a typing error may have meant: `8GB`, `8gi`, `8GiB`."""
    letter = suffix[:1].upper()
    if letter not in "KMGTPE":
        return ""
    return f"; was {letter}i meant?"


def amount(count: float) -> str:
    """Bytes for people: `8.00 GiB`, `512 MiB`, `100 bytes`."""
    number, unit = _rounded(count)
    return f"{number} {unit}B" if unit else f"{number} bytes"


def size(count: float) -> str:
    """The same for tables: `8.00Gi`, `512Mi`."""
    return "".join(_rounded(count))


def _rounded(count: float) -> tuple[str, str]:
    """A number and the largest unit of which there is at least one. Of nothing there are 0 Mi."""
    if round(count / _MI) >= 1024:
        return f"{count / _GI:.2f}", "Gi"
    if round(count / _KI) >= 1024 or count == 0:
        return f"{count / _MI:.0f}", "Mi"
    return (f"{count / _KI:.0f}", "Ki") if count >= _KI else (f"{count:.0f}", "")
