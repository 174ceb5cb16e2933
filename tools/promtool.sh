#!/usr/bin/env bash
# Puts promtool, which checks Prometheus' rules, into DIRECTORY if it is not there.   tools/promtool.sh DIRECTORY
#
# It is in Debian's package prometheus. The package is only downloaded and unpacked: an installation would start a server.
set -euo pipefail
mkdir -p "$1"
directory=$(cd "$1" && pwd)
[ ! -x "$directory/promtool" ] || exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "promtool: this is not a Debian system; put promtool into $1 or into PATH" >&2
    exit 1
}
work=$(mktemp -d "$directory/.unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "downloading promtool (19 MB)" >&2
timeout 120 apt-get -qq download prometheus >/dev/null 2>&1 || {
    [ "$(id -u)" != 0 ] || timeout 120 apt-get -qq update >/dev/null 2>&1
    timeout 120 apt-get -qq download prometheus >/dev/null
}
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mv usr/bin/promtool "$directory/promtool"
