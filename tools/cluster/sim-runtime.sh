#!/bin/sh
# The OCI runtime of the test cluster: runc, with the simulated GPU brought in as NVIDIA's runtime brings in a real one.
# Only `create` and `exec` need anything done; every other call goes straight through.
here=$(dirname "$(readlink -f "$0")")
previous="" bundle="" process="" what=""
for argument in "$@"; do
  case "$previous" in
    --bundle | -b) bundle="$argument" ;;
    --process | -p) process="$argument" ;;
  esac
  case "$argument" in create | exec) what="${what:-$argument}" ;; esac
  previous="$argument"
done
if [ "$what" = create ] && [ -n "$bundle" ]; then
  /usr/bin/python3 -I "$here/sim_gpu_hook.py" container "$bundle/config.json" || exit 1
elif [ "$what" = exec ] && [ -n "$process" ]; then
  /usr/bin/python3 -I "$here/sim_gpu_hook.py" process "$process" || exit 1
fi
exec runc "$@"
