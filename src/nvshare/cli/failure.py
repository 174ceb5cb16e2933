"""How the front door fails: one line, and an exit code that says whose turn it is."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_OURS = 125
"""`nvshare run` itself could not do its part; the program was not started. The numbers are those of env(1)."""
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127


class FrontError(Exception):
    """Something the user can mend; the text names it and the remedy."""

    def __init__(self, text: str, code: int = EXIT_FAILED) -> None:
        super().__init__(text)
        self.code = code
