#!/usr/bin/env bash
# Build containerd and etcd from the Go module proxy, once, into the cache, for the releases that need newer ones than
# Debian's. Without CONTAINERD_VERSION and ETCD_VERSION there is nothing to do.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod GOMAXPROCS="${GOMAXPROCS:-2}"
# A module of our own that requires theirs: `go install` refuses a go.mod with replace directives, which etcd's has.
enter_module() {
  mkdir -p "$CLUSTER_CACHE/build-$1"
  cd "$CLUSTER_CACHE/build-$1"
  printf 'module nvshare.test/runtime\ngo 1.24\nrequire %s %s\n' "$2" "$3" >go.mod
}
build() { nice -n 10 go build -trimpath -ldflags "$1" -o "$2" "$3"; }

if [ -n "$CONTAINERD_VERSION" ] && [ ! -e "$CONTAINERD_BIN/.built" ]; then
  echo "cluster: building containerd $CONTAINERD_VERSION"
  module=github.com/containerd/containerd/v2
  enter_module "containerd-$CONTAINERD_VERSION" "$module" "$CONTAINERD_VERSION"
  for program in containerd containerd-shim-runc-v2 ctr; do
    build "-s -w -X $module/version.Version=$CONTAINERD_VERSION" "$CONTAINERD_BIN/$program" "$module/cmd/$program"
  done
  touch "$CONTAINERD_BIN/.built"
fi
if [ -n "$ETCD_VERSION" ] && [ ! -e "$ETCD_BIN/.built" ]; then
  echo "cluster: building etcd $ETCD_VERSION"
  enter_module "etcd-$ETCD_VERSION" go.etcd.io/etcd/server/v3 "$ETCD_VERSION"
  build "-s -w" "$ETCD_BIN/etcd" go.etcd.io/etcd/server/v3
  touch "$ETCD_BIN/.built"
fi
