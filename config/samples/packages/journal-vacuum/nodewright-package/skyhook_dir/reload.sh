#!/bin/sh
# Takes over units that another version has changed: reload.sh UNIT.
set -eu
systemctl daemon-reload
systemctl enable "$1"
systemctl restart "$1"
