"""How commands fail: one line, and an exit code."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NVSHARE_FAILED = 125
"""`nvshare run` failed before it started the program. The numbers are those of env(1)."""
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


class CommandError(Exception):
    """A failure that the user can fix; the text names the remedy."""

    def __init__(self, text: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.code = code
