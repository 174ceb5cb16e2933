"""Coverage-guided fuzzing of the Python readers with atheris: python tools/fuzz_python.py SECONDS CORPORA [TARGET…].

CORPORA holds a folder and a dictionary for each target, as `python -m fuzz.seeds` writes them."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

JSON = ("control", "pod", "journal")


def main() -> int:
    if sys.argv[1] == "--one":
        return one(sys.argv[2], sys.argv[3:])
    try:
        import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        print("the package atheris is not installed: pip install atheris", file=sys.stderr)
        return 1
    from fuzz.targets import TARGETS  # type: ignore[import-not-found]

    seconds, corpora = sys.argv[1], Path(sys.argv[2])
    for name in sys.argv[3:] or TARGETS:
        print(f"{name}: {seconds} s", flush=True)
        words = ["--one", name, f"-max_total_time={seconds}", "-max_len=6000", "-verbosity=0", "-print_final_stats=1"]
        words += [f"-dict={corpora / name}.dict", f"-artifact_prefix={corpora / name}-", str(corpora / name)]
        done = subprocess.run([sys.executable, __file__, *words], env=dict(os.environ))
        if done.returncode:
            return done.returncode
    return 0


def one(name: str, words: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["nvshare", "fuzz", "tomllib"]):
        from fuzz.targets import TARGETS
    from fuzz.mutate import changed  # type: ignore[import-not-found]

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = Random(seed)
        after = changed(data, chance) if chance.randrange(4) else None
        return after if after and len(after) <= most else bytes(atheris.Mutate(data, most))

    mutator = {"custom_mutator": mutate} if name in JSON else {}
    atheris.Setup([sys.argv[0], *words], TARGETS[name], **mutator)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
