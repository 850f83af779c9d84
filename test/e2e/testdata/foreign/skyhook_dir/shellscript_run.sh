#!/bin/sh
# Runs the script of the configMap that is named; without one there is nothing to do.
script="${SKYHOOK_DIR}/configmaps/$1"
if [ ! -f "$script" ]; then
    echo "no $1, nothing to do"
    exit 0
fi
chmod +x "$script"
"$script"
