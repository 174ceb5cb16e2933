#!/usr/bin/env bash
# Make the base image that deploy/image/Dockerfile starts from, out of Debian's own packages, into buildah's storage.
#
# For machines that reach no image registry.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

name="$1"
buildah=(buildah --storage-driver overlay --root "$CLUSTER_CACHE/buildah" --runroot /run/nvshare-buildah)
if "${buildah[@]}" inspect --type image "$name" >/dev/null 2>&1; then
  exit 0
fi
archive="$CLUSTER_CACHE/debian-bookworm.tar"
if [ ! -e "$archive" ]; then
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' EXIT
  debootstrap --variant=minbase bookworm "$tree" >"$CLUSTER_CACHE/debootstrap.log"
  rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
  tar -C "$tree" -cf "$archive.new" .
  mv "$archive.new" "$archive"
fi
container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add -q "$container" "$archive" /
"${buildah[@]}" config --cmd /bin/bash "$container"
"${buildah[@]}" commit -q --rm "$container" "$name" >/dev/null
