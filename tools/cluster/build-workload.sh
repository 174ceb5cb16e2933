#!/usr/bin/env bash
# Build the test pods' image: Debian and the workload, nothing of nvshare. build-workload.sh NAME ARCHIVE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"
name="$1" archive="$2"
root=$(cd "$here/../.." && pwd)

base=localhost/nvshare-test/debian:bookworm
"$here/build-base.sh" "$base"
program=$(mktemp)
trap 'rm -f "$program"' EXIT
cc -O2 -Wall -Wextra -Werror -std=gnu11 "-I$root/native/include" -o "$program" "$root/tests/e2e/workload.c" -ldl
chmod 755 "$program"
buildah=(buildah --storage-driver overlay --root "$CLUSTER_CACHE/buildah" --runroot /run/nvshare-buildah)
container=$("${buildah[@]}" from --pull-never "$base")
"${buildah[@]}" copy -q "$container" "$program" /usr/bin/workload >/dev/null
"${buildah[@]}" config --cmd "sleep infinity" "$container"
"${buildah[@]}" commit -q --rm "$container" "$name" >/dev/null
rm -f "$archive"
mkdir -p "$(dirname "$archive")"
"${buildah[@]}" push -q "$name" "docker-archive:$archive:$name"
