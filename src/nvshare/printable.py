"""Text from outside, made safe for a terminal, a log line and a page. Pure."""


def printable(text: str, length: int | None = None, *, instead: str = "?") -> str:
    """`text` with `instead` for each character that is not printable, cut to `length` characters.

    Names of processes and pods, lines of log files and messages of other programs are chosen by others: a control
    character in them could move the cursor, or forge a line of a log."""
    return "".join(char if char.isprintable() else instead for char in text[:length])


def last_line(text: str) -> str:
    """The last line of a log or of an error output, made printable; empty if there is none."""
    lines = text.strip().splitlines()
    return printable(lines[-1]) if lines else ""
