#!/bin/sh
# Builds the fuzzing program of libnvshare's frame reader: fuzz_frames.sh OUTPUT. With CC=clang it is a libFuzzer program.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
library=$root/native/libnvshare
cc=${CC:-cc}
how="-fsanitize=address,undefined"
if "$cc" --version | grep -q clang; then how="-fsanitize=fuzzer,address,undefined -DNVS_LIBFUZZER"; fi
parts=""
for part in messages socket gate account platform log options; do parts="$parts $library/$part.c"; done
# shellcheck disable=SC2086 # both are lists
exec "$cc" -std=gnu11 -g -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -fno-sanitize-recover=all $how -I"$library" -I"$root/native/include" \
    "$root/tests/fuzz/frames.c" $parts -lpthread -o "$1"
