#!/usr/bin/env bash
# Copy parts of a Go module from the module proxy into a folder, once.
#
#     fetch-module.sh MODULE@VERSION FOLDER COMMAND
#
# COMMAND runs in the module's folder with $new, the folder to fill. FOLDER appears when it has ended well.
set -euo pipefail
module=$1 target=$2 command=$3

[ -e "$target" ] && exit 0
command -v go >/dev/null || { echo "cluster: go is needed to fetch $module (apt-get install golang)" >&2; exit 1; }
fetched=$(cd "$(mktemp -d)" && go mod download -json "$module") || true
folder=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$fetched")
[ -n "$folder" ] || { echo "cluster: $module is not available from the module proxy: $fetched" >&2; exit 1; }
export new="$target.new"
mkdir -p "$(dirname "$target")"
rm -rf "$new"
mkdir "$new"
(cd "$folder" && bash -euo pipefail -c "$command")
chmod -R u+w "$new"
mv "$new" "$target"
