#!/bin/sh
# Random bytes for every reader, SECONDS each: fuzz.sh SECONDS. The Python ones need the package atheris; without it that part says so and fails.
set -eu
seconds=${1:-60}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$root/build/fuzz"
sh "$root/tools/fuzz_frames.sh" "$root/build/fuzz/frames"
if "${CC:-cc}" --version | grep -q clang; then
    "$root/build/fuzz/frames" -max_total_time="$seconds" "$root/build/fuzz"
else
    end=$(($(date +%s) + seconds)) seed=1
    while [ "$(date +%s)" -lt "$end" ]; do
        "$root/build/fuzz/frames" 500000 $seed 2> "$root/build/fuzz/frames.log" || { tail -40 "$root/build/fuzz/frames.log"; exit 1; }
        seed=$((seed + 1))
    done
fi
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
PYTHONPATH=$root/src:$root/tests exec "$python" "$root/tools/fuzz_python.py" "$seconds"
