#!/bin/sh
# Fails if anything of the package is left.
. "$STEP_ROOT/lib.sh"

for file in "$target" "$before"; do
  if [ -e "$file" ]; then
    echo "$file is still there" >&2
    exit 1
  fi
done
