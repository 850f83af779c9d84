#!/usr/bin/env bash
# Checks, without changing the tree, that what is generated is up to date, that
# go.mod is tidy, that files are formatted, and that nothing in the tree belongs
# to one machine only. Reports everything it finds, then fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/.."
failed=0

complain() {
  echo "verify: $1" >&2
  failed=1
}

files() {
  git ls-files -co --exclude-standard -z "$@" | while IFS= read -r -d '' f; do
    [[ -f $f ]] && printf '%s\0' "$f"
  done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "verify: generated files" >&2
mkdir "$work/now" "$work/want"
files | tar --null --files-from=- -cf "$work/tree.tar"
tar -xf "$work/tree.tar" -C "$work/now"
tar -xf "$work/tree.tar" -C "$work/want"
if ! "$here/generate.sh" "$work/want"; then
  complain "generation fails: see above"
elif ! diff -ruN "$work/now" "$work/want" >"$work/diff"; then
  sed "s#$work/##g" "$work/diff" | head -n 200 >&2
  complain "generated files are out of date: run make generate and commit what it changes"
fi

echo "verify: go.mod" >&2
if ! go mod tidy -diff >"$work/tidy"; then
  head -n 100 "$work/tidy" >&2
  complain "go.mod or go.sum is not tidy: run go mod tidy"
fi

echo "verify: format" >&2
unformatted=$(files '*.go' | xargs -0 gofmt -l)
if [[ -n $unformatted ]]; then
  echo "$unformatted" >&2
  complain "files are not formatted: run gofmt -w on them"
fi

# Where modules come from is a matter of the machine that builds. Checksums name
# modules, not hosts.
echo "verify: hosts" >&2
if files ':!*go.sum' | xargs -0 grep -InE '(proxy|sum)[.]golang[.]org|registry[.]npmjs[.]org|pypi[.]org|crates[.]io' >&2; then
  complain "files name the host of a package registry: leave it to the environment"
fi

# What tests and tools leave behind gets in beside a change and is run, or read, by
# everybody from then on.
echo "verify: ignored files" >&2
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  ignored=$(git ls-files --cached --ignored --exclude-standard)
  if [[ -n $ignored ]]; then
    echo "$ignored" >&2
    complain "files are committed that .gitignore names: run git rm --cached on them"
  fi
fi

if [[ $failed != 0 ]]; then
  exit 1
fi
echo "verify: ok" >&2
