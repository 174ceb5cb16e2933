#!/usr/bin/env bash
# The cluster tests, from nothing: packages, Kubernetes, images, a one-node cluster, nvshare by its own manifests, the
# stories of tests/e2e, and everything taken down again. Needs root and two cores. The stories take up to 40 minutes, by
# the load of the machine. The first time, Kubernetes, containerd, etcd and helm are built into the cache
# (CLUSTER_CACHE); Kubernetes takes 16 minutes of CPU time, or 1 minute if only the programs are gone and Go's own cache
# is there.
#
#   tools/e2e.sh [pytest arguments]       PYTHON names an interpreter with the development packages (.venv's)
#   KUBERNETES=1.34 tools/e2e.sh          another release than the default; tools/cluster/settings.sh has the list
#   NVSHARE_E2E=skip tools/e2e.sh         says so and does nothing
#   NVSHARE_E2E_TORCH=VENV tools/e2e.sh   also runs PyTorch in pods, from a virtual environment that has it
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cluster="$root/tools/cluster"
. "$cluster/settings.sh"
python="${PYTHON:-$root/.venv/bin/python}"

if [ "${NVSHARE_E2E:-}" = skip ]; then
  echo "e2e: SKIPPED because NVSHARE_E2E=skip is set"
  exit 0
fi
fail() { echo "e2e: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "needs root: it starts containers (or set NVSHARE_E2E=skip)"
"$python" -c 'import pytest, grpc, h11, msgspec' || fail "$python lacks the development packages: make setup, or set PYTHON"

needed=(runc iptables iproute2 containernetworking-plugins buildah debootstrap openssl)
[ -n "$CONTAINERD_VERSION" ] || needed+=(containerd)
[ -n "$ETCD_VERSION" ] || needed+=(etcd-server)
missing=()
for package in "${needed[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "e2e: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "cannot install the Debian packages ${missing[*]} (or set NVSHARE_E2E=skip)"
fi

"$cluster/build-kubernetes.sh" || fail "Kubernetes cannot be built (or set NVSHARE_E2E=skip)"
"$cluster/build-runtime.sh" || fail "containerd and etcd cannot be built (or set NVSHARE_E2E=skip)"
"$cluster/build-helm.sh" || fail "helm cannot be built (or set NVSHARE_E2E=skip)"
"$cluster/fetch-kubelet-api.sh" || fail "kubelet's API cannot be fetched (or set NVSHARE_E2E=skip)"
"$cluster/fetch-kueue.sh" || fail "Kueue's types cannot be fetched (or set NVSHARE_E2E=skip)"
"$CLUSTER_TOOLS/helm" lint --quiet "$root/deploy/chart" || fail "the chart does not pass helm lint"
"$python" "$root/deploy/render.py" --check || fail "the rendered manifests are stale"

mkdir -p "$CLUSTER_CACHE/images"
make -s -C "$root/native"
"$cluster/build-image.sh" nvshare/nvshare:0.1.0 "$CLUSTER_CACHE/images/nvshare.tar" >"$CLUSTER_CACHE/image.log" 2>&1 ||
  { tail -40 "$CLUSTER_CACHE/image.log"; fail "the image does not build from deploy/image/Dockerfile"; }
"$cluster/build-workload.sh" localhost/nvshare-test/workload:1 "$CLUSTER_CACHE/images/workload.tar"

cd "$root"
exec env PYTHONPATH="$root/src" "$python" -m pytest -q -p no:cacheprovider "$root"/tests/e2e/*story*.py "$@"
