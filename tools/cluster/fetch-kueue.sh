#!/usr/bin/env bash
# Fetch the types of Kueue's objects and of its configuration from the Go module proxy, once, into the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

[ -e "$KUEUE_TYPES" ] && exit 0
command -v go >/dev/null || { echo "cluster: go is needed to fetch Kueue's types (apt-get install golang)" >&2; exit 1; }
fetched=$(cd "$(mktemp -d)" && go mod download -json "sigs.k8s.io/kueue@$KUEUE_VERSION")
folder=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$fetched")
[ -n "$folder" ] || { echo "cluster: Kueue $KUEUE_VERSION is not available from the module proxy: $fetched" >&2; exit 1; }
mkdir -p "$CLUSTER_CACHE"
rm -rf "$KUEUE_TYPES.new"
mkdir "$KUEUE_TYPES.new"
cp -r "$folder/config/components/crd/bases" "$KUEUE_TYPES.new/objects"
cp "$folder/apis/config/v1beta2/configuration_types.go" "$folder/pkg/features/kube_features.go" "$KUEUE_TYPES.new"
chmod -R u+w "$KUEUE_TYPES.new"
mv "$KUEUE_TYPES.new" "$KUEUE_TYPES"
