#!/bin/sh
# Fails unless the units are those of the package and the timer runs: check.sh UNIT.
set -eu
cd "$SKYHOOK_DIR/root_dir"
for unit in etc/systemd/system/*; do
  cmp "$unit" "/$unit"
done
systemctl is-enabled --quiet "$1"
systemctl is-active --quiet "$1"
