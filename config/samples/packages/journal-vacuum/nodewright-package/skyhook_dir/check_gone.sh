#!/bin/sh
# Fails if the timer still runs or a unit is left: check_gone.sh UNIT.
set -eu
if systemctl is-active --quiet "$1"; then
  echo "$1 still runs" >&2
  exit 1
fi
cd "$SKYHOOK_DIR/root_dir"
for unit in etc/systemd/system/*; do
  if [ -e "/$unit" ]; then
    echo "/$unit is still there" >&2
    exit 1
  fi
done
