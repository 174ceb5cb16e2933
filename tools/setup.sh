#!/usr/bin/env bash
# Sets up a virtual environment with the package and what its tests need.   tools/setup.sh [--tests] VENV
#
# Debian packages are installed only if they are missing and we are root; otherwise the line to type is printed.
set -euo pipefail
cd "$(dirname "$0")/.."

packages_for() {
    command -v cc >/dev/null || echo gcc libc6-dev
    command -v make >/dev/null || echo make
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

packages_for_tests() {
    command -v chromium >/dev/null || echo chromium
    command -v tmux >/dev/null || echo tmux
    # Programs that the library must leave alone: musl and 32-bit ones.
    command -v musl-gcc >/dev/null || echo musl-tools
    [ "$(uname -m)" != x86_64 ] || [ -e /usr/include/x86_64-linux-gnu/gnu/stubs-32.h ] || [ -e /usr/include/gnu/stubs-32.h ] || echo gcc-multilib
}

install() {
    [ $# -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $*" >&2
        apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
    else
        echo "missing: $*. As root: apt-get install -y $*" >&2
        return 1
    fi
}

if [ "${1:-}" = --tests ]; then
    # shellcheck disable=SC2046 # words, on purpose
    install $(packages_for_tests) || echo "tests that need them are skipped or fail and say so" >&2
    command -v promtool >/dev/null || tools/promtool.sh build/promtool || echo "the tests of the alerts are skipped" >&2
    exit 0
fi

venv=$1
# shellcheck disable=SC2046
install $(packages_for)
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install -q --upgrade 'pip>=25.1'
echo "installing the package and its tools (about a minute)" >&2
"$venv/bin/python" -m pip install -q --group dev -e '.[kubernetes]'
