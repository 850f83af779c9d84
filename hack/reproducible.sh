#!/usr/bin/env bash
# Builds manager and agent in two directories of different names and fails unless
# the bytes are equal: nothing of the machine is in a binary that is published.
# For arm64 as well.
#
#   hack/reproducible.sh [COMMAND ...]     default: manager agent
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
commands=("$@")
[[ $# -gt 0 ]] || commands=(manager agent)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
for copy in one another/place; do
  mkdir -p "$work/$copy"
  git ls-files -co --exclude-standard -z -- '*.go' '*.json' '*.mod' '*.sum' '*.yaml' |
    while IFS= read -r -d '' f; do [[ -f $f ]] && printf '%s\0' "$f"; done |
    tar --null --files-from=- -cf - | tar -xf - -C "$work/$copy"
done

failed=0
for arch in amd64 arm64; do
  for command in "${commands[@]}"; do
    sums=()
    for copy in one another/place; do
      binary=$work/$copy.$command.$arch
      CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -C "$work/$copy" -trimpath -buildvcs=false -ldflags='-s -w' \
        -o "$binary" "./cmd/$command"
      sums+=("$(sha256sum <"$binary" | cut -c1-64)")
    done
    if [[ ${sums[0]} == "${sums[1]}" ]]; then
      echo "$command $arch ${sums[0]}"
    else
      echo "reproducible.sh: $command for $arch differs between two directories: ${sums[*]}" >&2
      failed=1
    fi
  done
done
exit $failed
