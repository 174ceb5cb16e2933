#!/bin/sh
# The OCI runtime of the test cluster: runc, with the simulated GPU brought in as NVIDIA's runtime brings in a real one.
# Only `create` needs anything done; every other call goes straight through.
here=$(dirname "$(readlink -f "$0")")
previous="" bundle="" creating=""
for argument in "$@"; do
  case "$previous" in --bundle | -b) bundle="$argument" ;; esac
  [ "$argument" = create ] && creating=yes
  previous="$argument"
done
if [ -n "$creating" ] && [ -n "$bundle" ]; then
  /usr/bin/python3 -I "$here/sim_gpu_hook.py" "$bundle/config.json" || exit 1
fi
exec runc "$@"
