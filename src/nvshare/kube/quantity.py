"""Amounts of memory as Kubernetes writes them: `8Gi`, `512Mi`, `2G`, `1073741824`, `1.5Gi`, `1e9`.

The grammar and the rounding (a fraction of a byte counts as a whole one) are those of Kubernetes' own quantities, and a
table made with its Go code keeps us to them. Four things that it lets through are refused or capped here, because as a
memory limit they can only be a slip: no digits at all (`Gi` is 0 to Kubernetes), a negative amount, an amount under one
byte (`512m` is half a byte, not half a gigabyte), and amounts beyond any GPU, which may wrap around there."""

import re
from fractions import Fraction

MOST_BYTES = 1 << 56
"""No GPU has more; larger amounts mean the same as this one."""

_SUFFIXES = {
    **{
        name: Fraction(1000) ** power
        for power, name in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{name: Fraction(1024) ** power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE][+-]?[0-9]+)|([A-Za-z]*))", re.ASCII)
_MOST_EXPONENT = 100  # so far beyond or below anything that 64 characters cannot make up for it
_MOST_CHARACTERS = 64


class QuantityError(ValueError):
    """Not an amount of memory; the text says why, and what may have been meant."""


def parse_bytes(text: str) -> int:
    """The number of bytes; raises QuantityError."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
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
    return min(-(-number.numerator // number.denominator), MOST_BYTES)


def _scale(exponent: str, suffix: str) -> Fraction:
    if exponent:
        power = int(exponent[1:])
        return Fraction(10) ** max(-_MOST_EXPONENT, min(power, _MOST_EXPONENT))
    if suffix not in _SUFFIXES:
        raise QuantityError(f"has an unknown suffix {suffix!r}{_hint(suffix)}")
    return _SUFFIXES[suffix]


def _hint(suffix: str) -> str:
    """What a slip of the pen may have meant: `8GB`, `8gi`, `8GiB`."""
    letter = suffix[:1].upper()
    if letter not in "KMGTPE":
        return ""
    return f"; was {letter}i meant?"
