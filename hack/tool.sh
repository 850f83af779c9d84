#!/usr/bin/env bash
# Prints the path of a pinned tool, building it first where the cache lacks it.
#
#   hack/tool.sh NAME      path of the tool NAME
#   hack/tool.sh --dir     directory that holds the tools
#
# Tools are pinned in hack/tools, a module of its own. The directory is named by
# its go.sum and by the version of Go, so a changed pin builds anew and an old
# one stays usable. A binary gets there only by rename: what is there is whole.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${NODEWRIGHT_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/nodewright/assets}
key=$( (cat "$root/hack/tools/go.sum"; go env GOVERSION) | sha256sum | cut -c1-12)
dir=$cache/tools/$key

declare -A package=(
  [controller-gen]=sigs.k8s.io/controller-tools/cmd/controller-gen
  [golangci-lint]=github.com/golangci/golangci-lint/v2/cmd/golangci-lint
  [kustomize]=sigs.k8s.io/kustomize/kustomize/v5
  [gotestsum]=gotest.tools/gotestsum
  [benchstat]=golang.org/x/perf/cmd/benchstat
)

name=${1:-}
if [[ $name == --dir ]]; then
  echo "$dir"
  exit
fi
if [[ -z $name || -z ${package[$name]:-} ]]; then
  echo "tool.sh: unknown tool '$name'; known: ${!package[*]}" >&2
  exit 2
fi

if [[ ! -x $dir/$name ]]; then
  mkdir -p "$dir"
  started=$SECONDS
  hint=
  [[ $name == golangci-lint ]] && hint=" (takes minutes)"
  echo "tools: building $name, once$hint" >&2
  fresh=$dir/.$name.$$
  trap 'rm -f "$fresh"' EXIT
  CGO_ENABLED=0 go build -C "$root/hack/tools" -trimpath -buildvcs=false -ldflags='-s -w' -o "$fresh" "${package[$name]}"
  mv "$fresh" "$dir/$name"
  echo "tools: $name built in $((SECONDS - started))s" >&2
fi
echo "$dir/$name"
