#!/usr/bin/env bash
# Fuzzes every target of the repository, one after the other:
#
#   hack/fuzz.sh TIME [PART]
#
# TIME is what each gets, as 30s or 2m; PART is a part of the names of those to
# fuzz, all if it is missing. An input that fails is kept in testdata beside its
# test, where go test runs it from then on. Exits 1 if any target failed, after all
# had their time, and 2 if there is none to fuzz.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time=${1:?how long each target is fuzzed, as 30s}
part=${2:-}

count=0
failed=()
while IFS=: read -r file name; do
  [[ $name == *"$part"* ]] || continue
  count=$((count + 1))
  echo "== $name (${file%/*})"
  go test "./${file%/*}" -run '^$' -fuzz "^$name\$" -fuzztime "$time" || failed+=("$name")
done < <(git grep --untracked --full-name -oE -e '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func /:/')

if ((count == 0)); then
  echo "no target has $part in its name" >&2
  exit 2
fi
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
