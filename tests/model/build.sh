#!/bin/sh
# Builds the model of the gate: build.sh GATE_SOURCES OUTPUT. GATE_SOURCES is native/libnvshare, or a changed copy of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
library=$1
exec "${CC:-cc}" -std=gnu11 -g -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$here" -I"$library" -I"$here/../../native/include" \
    "$here/explore.c" "$here/memory.c" "$here/trace.c" "$here/gate.c" "$library/gate/gate.c" "$library/gate/enter.c" "$library/gate/threads.c" -lpthread -o "$2"
