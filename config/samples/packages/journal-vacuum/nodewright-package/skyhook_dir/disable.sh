#!/bin/sh
# Stops the timer and takes its units off: disable.sh UNIT. The agent never removes
# what it copied from root_dir: that is done here. May run again at any time.
set -eu
if [ -e "/etc/systemd/system/$1" ]; then
  systemctl disable --now "$1"
fi
cd "$SKYHOOK_DIR/root_dir"
for unit in etc/systemd/system/*; do
  rm -f "/$unit"
done
systemctl daemon-reload
