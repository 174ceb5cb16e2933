#!/usr/bin/env bash
# Fetch kubelet's API for plugins, the .proto files of the release, from the Go module proxy, once, into the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

[ -e "$KUBELET_API" ] && exit 0
command -v go >/dev/null || { echo "cluster: go is needed to fetch kubelet's API (apt-get install golang)" >&2; exit 1; }
version="v0.${KUBERNETES_VERSION#v1.}"
fetched=$(cd "$(mktemp -d)" && go mod download -json "k8s.io/kubelet@$version")
folder=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$fetched")
[ -n "$folder" ] || { echo "cluster: k8s.io/kubelet $version is not available from the module proxy: $fetched" >&2; exit 1; }
mkdir -p "$CLUSTER_CACHE"
rm -rf "$KUBELET_API.new"
mkdir "$KUBELET_API.new"
(cd "$folder/pkg/apis" && find . -name '*.proto' -exec cp --parents {} "$KUBELET_API.new" \;)
chmod -R u+w "$KUBELET_API.new"
mv "$KUBELET_API.new" "$KUBELET_API"
