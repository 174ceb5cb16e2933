#!/usr/bin/env bash
# Build the shipped Dockerfile for the test cluster: build-image.sh NAME ARCHIVE [more buildah arguments]
#
# buildah runs the Dockerfile as docker would. Two things are this machine's and not the image's: the base image, made
# from Debian's packages, and pip's settings and certificates, lent to the build steps without entering a layer.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"
name="$1" archive="$2"
shift 2

base=localhost/nvshare-test/debian:bookworm
"$here/build-base.sh" "$base"

# At paths of their own: the packages that the build installs own the usual ones.
settings=$(mktemp)
context=$(mktemp -d)
trap 'rm -rf "$settings" "$context"' EXIT
{ [ -e /etc/pip.conf ] && grep -v '^cert' /etc/pip.conf || echo '[global]'; echo 'cert = /run/lent-certificates.crt'; } >"$settings"
lent=(--volume "$settings:/etc/pip.conf:ro")
lent+=(--volume "/etc/ssl/certs/ca-certificates.crt:/run/lent-certificates.crt:ro")
buildah=(buildah --storage-driver overlay --root "$CLUSTER_CACHE/buildah" --runroot /run/nvshare-buildah)
# A copy of the sources, so that what is built is one moment's state, and nothing that git ignores.
cd "$here/../.."
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' path; do
  if [ -e "$path" ]; then printf '%s\0' "$path"; fi
done | tar --null --files-from=- -cf - | tar -C "$context" -xf -
"${buildah[@]}" build --isolation chroot --network host --layers --pull-never "${lent[@]}" \
  --build-arg "BASE=$base" --file "$context/deploy/image/Dockerfile" --tag "$name" "$@" "$context"
rm -f "$archive"
mkdir -p "$(dirname "$archive")"
"${buildah[@]}" push -q "$name" "docker-archive:$archive:$name"
# Layers are kept so that the next build is quick, up to a point.
if [ "$(du -s --block-size=1G "$CLUSTER_CACHE/buildah" | cut -f1)" -gt 12 ]; then
  "${buildah[@]}" rmi --prune >/dev/null
fi
