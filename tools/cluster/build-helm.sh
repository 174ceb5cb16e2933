#!/usr/bin/env bash
# Build helm from the Go module proxy, once, into the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

stamp="$CLUSTER_TOOLS/.helm-$HELM_VERSION"
[ -e "$stamp" ] && exit 0
command -v go >/dev/null || { echo "cluster: go is needed to build helm (apt-get install golang, or set CLUSTER_TOOLS)" >&2; exit 1; }
mkdir -p "$CLUSTER_TOOLS"
echo "cluster: building helm $HELM_VERSION"
# 1.34: the release of the Kubernetes libraries in helm 3.19, as helm's own Makefile sets it. It is what `helm lint` and
# `helm template` assume without a cluster, whatever the release of the test cluster.
CGO_ENABLED=0 GOWORK=off GOMAXPROCS="${GOMAXPROCS:-2}" GOBIN="$CLUSTER_TOOLS" nice -n 10 \
  go install -trimpath -ldflags "-s -w -X helm.sh/helm/v3/internal/version.version=$HELM_VERSION
            -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34" \
  "helm.sh/helm/v3/cmd/helm@$HELM_VERSION"
touch "$stamp"
