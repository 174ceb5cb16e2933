"""Coverage-guided fuzzing of the Python readers with atheris: python tools/fuzz_python.py SECONDS [TARGET…]."""

import os
import subprocess
import sys


def main() -> int:
    if len(sys.argv) > 2 and sys.argv[1] == "--one":
        return one(sys.argv[2], sys.argv[3:])
    try:
        import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        print(
            "the package atheris is not installed (it needs Python 3.12 or older): pip install atheris", file=sys.stderr
        )
        return 1
    from fuzz.targets import TARGETS  # type: ignore[import-not-found]

    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    for name in sys.argv[2:] or TARGETS:
        print(f"{name}: {seconds} s", flush=True)
        words = [sys.executable, __file__, "--one", name, f"-max_total_time={seconds}", "-max_len=2000", "-verbosity=0"]
        done = subprocess.run(words, env=dict(os.environ))
        if done.returncode:
            return done.returncode
    return 0


def one(name: str, words: list[str]) -> int:
    import atheris

    with atheris.instrument_imports():
        from fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *words], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
