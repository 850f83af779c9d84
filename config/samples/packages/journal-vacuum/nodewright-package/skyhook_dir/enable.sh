#!/bin/sh
# Starts the timer now and at each boot: enable.sh UNIT. The agent has copied the
# units from root_dir already. May run again at any time.
set -eu
systemctl daemon-reload
systemctl enable --now "$1"
