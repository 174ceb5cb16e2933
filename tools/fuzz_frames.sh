#!/bin/sh
# Builds the fuzzing program of libnvshare's helper thread: fuzz_frames.sh OUTPUT. With CC=clang it is a libFuzzer program.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
library=$root/native/libnvshare
cc=${CC:-cc}
how="-fsanitize=address,undefined"
if "$cc" --version | grep -q clang; then how="-fsanitize=fuzzer,address,undefined -DNVS_LIBFUZZER"; fi
parts=""
for part in helper/session helper/joining helper/link helper/user_lines helper/work helper/drains helper/reports helper/asks helper/config memory/memory memory/entries memory/ledger mover/usage mover/plan mover/working_set; do parts="$parts $library/$part.c"; done
for part in "$library"/client/*.c; do parts="$parts $part"; done
for part in frames story scheduler system world; do parts="$parts $root/tests/fuzz/$part.c"; done
played=""
for call in nvs_client_receive nvs_user_lines_of_frame nvs_link_put socket connect send recv ppoll; do played="$played -Wl,--wrap=$call"; done
# shellcheck disable=SC2086 # all are lists
exec "$cc" -std=gnu11 -g -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -fno-sanitize-recover=all $how ${FUZZ_CFLAGS:-} \
    -I"$library" -I"$root/native/include" -I"$root/tests/fuzz" $parts $played -lpthread -o "$1"
