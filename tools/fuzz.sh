#!/bin/sh
# Random input for every reader, SECONDS each: fuzz.sh SECONDS. What was learnt stays in build/fuzz/corpora for the next time; an
# input that breaks something is written there too.
#
# The library's helper thread is driven by libFuzzer, for which clang is installed if it is missing and we are root.
# Otherwise the package is named, and stories are made up without a look at coverage.
set -eu
seconds=${1:-60}
root=$(cd "$(dirname "$0")/.." && pwd)
out=$root/build/fuzz corpora=$root/build/fuzz/corpora
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
export PYTHONPATH="$root/src:$root/tests"

has_libfuzzer() {
    echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' > "$out/try.c"
    clang -fsanitize=fuzzer,address,undefined "$out/try.c" -o "$out/try" 2> /dev/null
}

install_clang() {
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        echo "installing clang libclang-rt-dev" >&2
        apt-get update -qq > /dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends clang > /dev/null || return 1
        # The runtime must be of the compiler's own version; older releases have no package that follows it.
        version=$(clang -dumpversion) && version=${version%%.*}
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "libclang-rt-$version-dev" > /dev/null
    else
        echo "missing: clang with libFuzzer. As root: apt-get install -y clang libclang-rt-dev" >&2
        return 1
    fi
}

fuzz_library() {
    CC=clang sh "$root/tools/fuzz_frames.sh" "$out/frames-libfuzzer"
    "$out/frames-libfuzzer" -max_total_time="$seconds" -max_len=1000 -verbosity=0 -print_final_stats=1 \
        -dict="$corpora/frames.dict" -artifact_prefix="$corpora/frames-" "$corpora/frames"
}

make_up_stories() {
    CC=${CC:-cc} sh "$root/tools/fuzz_frames.sh" "$out/frames-alone"
    end=$(($(date +%s) + seconds)) seed=1
    while [ "$(date +%s)" -lt "$end" ]; do
        "$out/frames-alone" 20000 $seed > "$out/frames.log" 2>&1 || { echo "seed $seed"; tail -40 "$out/frames.log"; exit 1; }
        seed=$((seed + 1))
    done
    echo "frames: $((seed - 1)) times 20,000 stories"
}

mkdir -p "$corpora"
"$python" -m fuzz.seeds "$corpora"
echo "frames: $seconds s"
if has_libfuzzer || { install_clang && has_libfuzzer; }; then fuzz_library; else make_up_stories; fi
"$python" -c 'import atheris' 2> /dev/null || [ "$python" = python3 ] || "$python" -m pip install -q atheris || true
exec "$python" "$root/tools/fuzz_python.py" "$seconds" "$corpora"
