#!/bin/sh
# Gives all parameters the values that they had before. May run again at any time.
. "$STEP_ROOT/lib.sh"

rm -f "$target" "$target.new"
if [ -e "$before" ]; then
  while read -r key value; do
    sysctl -w "$key=$value"
  done <"$before"
fi
# Last: until here, what to restore is known.
rm -rf "${before%/*}"
