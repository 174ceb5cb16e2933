#!/usr/bin/env bash
# Fetch the types of Kueue's objects and of its configuration from the Go module proxy, once, into the cache.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/settings.sh"

exec "$here/fetch-module.sh" "sigs.k8s.io/kueue@$KUEUE_VERSION" "$KUEUE_TYPES" '
  cp -r config/components/crd/bases "$new/objects"
  cp apis/config/v1beta2/configuration_types.go pkg/features/kube_features.go "$new"'
