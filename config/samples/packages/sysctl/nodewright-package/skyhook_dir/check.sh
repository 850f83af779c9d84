#!/bin/sh
# Fails unless the host runs with the parameters, and will after a boot.
. "$STEP_ROOT/lib.sh"

cmp "$wanted" "$target"
wrong=$(settings "$wanted" | while read -r key value; do
  is=$(current "$key") || is="unknown to the kernel"
  [ "$is" = "$(plain "$value")" ] || echo "$key is $is, want $value"
done)
if [ -n "$wrong" ]; then
  echo "$wrong" >&2
  exit 1
fi
