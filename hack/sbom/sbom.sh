#!/usr/bin/env bash
# Writes what manager and agent are built from, as CycloneDX JSON, read from
# binaries as they are published. Equal sources give equal bytes: no serial
# number, no time of day.
#
#   hack/sbom/sbom.sh DIR
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
# The tool is pinned in hack/sbom, a module of its own: in hack/tools each new pin
# builds all tools anew.
CGO_ENABLED=0 go build -C hack/sbom -trimpath -buildvcs=false -o "$work/cyclonedx-gomod" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
version=$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
for command in manager agent; do
  CGO_ENABLED=0 GOOS=linux go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$work/$command" "./cmd/$command"
  "$work/cyclonedx-gomod" bin -json -noserial -version "$version" -output "$work/$command.json" "$work/$command" 2>"$work/log" ||
    { cat "$work/log" >&2; exit 1; }
  # The tool always writes the time of day, which CycloneDX does not require.
  sed '/^ *"timestamp": /d' "$work/$command.json" >"$out/$command.json"
  echo "$1/$command.json"
done
