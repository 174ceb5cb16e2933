#!/usr/bin/env bash
# Build the Kubernetes programs of the test cluster from the Go module proxy, once, into the cache.
#
# `go install k8s.io/kubernetes/cmd/kubelet@vX` refuses, because that module's go.mod has replace directives that point
# into its own tree (staging/). The published staging modules carry the same code, so we take Kubernetes' go.mod under
# another module name, turn every `=> ./staging/src/k8s.io/X` into the published version of k8s.io/X, and build its
# programs as tools of that module. Exact versions stay as Kubernetes pinned them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

stamp="$CLUSTER_BIN/.kubernetes-$KUBERNETES_VERSION"
if [ -e "$stamp" ]; then
  exit 0
fi
command -v go >/dev/null || { echo "cluster: go is needed to build Kubernetes (apt-get install golang, or set CLUSTER_BIN)" >&2; exit 1; }

work="$CLUSTER_CACHE/build-$KUBERNETES_VERSION"
mkdir -p "$work" "$CLUSTER_BIN"
cd "$work"
export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod GOMAXPROCS="${GOMAXPROCS:-2}"

minor="${KUBERNETES_VERSION#v1.}"
minor="${minor%%.*}"
staging_version="v0.${KUBERNETES_VERSION#v1.}"
# The proxy is another machine: a download may fail for a moment. With -json go writes its error to standard output.
fetched=""
for _ in 1 2 3; do
  if fetched=$(cd "$(mktemp -d)" && go mod download -json "k8s.io/kubernetes@$KUBERNETES_VERSION"); then break; fi
  echo "cluster: cannot download k8s.io/kubernetes@$KUBERNETES_VERSION: $fetched" >&2
  fetched=""
done
source_mod=$(sed -n 's/^\t"GoMod": "\(.*\)",\{0,1\}$/\1/p' <<<"$fetched")
[ -n "$source_mod" ] || { echo "cluster: Kubernetes $KUBERNETES_VERSION is not available from the module proxy" >&2; exit 1; }

programs="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl"
sed -e 's|^module .*|module nvshare.test/cluster|' \
    -e "s|=> \./staging/src/\(k8s\.io/[a-z0-9-]*\)|=> \1 $staging_version|" "$source_mod" >go.mod
{
  echo "require k8s.io/kubernetes $KUBERNETES_VERSION"
  echo "tool ("
  for program in $programs; do echo "  k8s.io/kubernetes/cmd/$program"; done
  echo ")"
} >>go.mod

for program in $programs; do
  echo "cluster: building $program $KUBERNETES_VERSION"
  nice -n 10 go build -trimpath -o "$CLUSTER_BIN/$program" \
    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$KUBERNETES_VERSION
              -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$minor" \
    "k8s.io/kubernetes/cmd/$program"
done
touch "$stamp"
