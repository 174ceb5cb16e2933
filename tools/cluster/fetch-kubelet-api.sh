#!/usr/bin/env bash
# Fetch kubelet's API for plugins, the .proto files of the release, from the Go module proxy, once, into the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

exec "$here/fetch-module.sh" "k8s.io/kubelet@v0.${KUBERNETES_VERSION#v1.}" "$KUBELET_API" \
  'cd pkg/apis && find . -name "*.proto" -exec cp --parents {} "$new" \;'
