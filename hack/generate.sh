#!/usr/bin/env bash
# Generates everything that is generated, in the tree given (default: this one).
#
#   hack/generate.sh [DIR]
#
# The tools are always those of this tree.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
controller_gen=$("$here/tool.sh" controller-gen)
cd "${1:-$here/..}"

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

echo "generate: deep copies" >&2
"$controller_gen" object paths=./apis/...

echo "generate: CRDs" >&2
rm -f config/crd/bases/*.yaml
"$controller_gen" crd paths=./apis/nodewright/... output:crd:dir=config/crd/bases
go run ./hack/crdbounds config/crd/bases/*.yaml

echo "generate: apply configurations" >&2
rm -rf applyconfigs
"$controller_gen" applyconfiguration paths=./apis/nodewright/...

# Markers of RBAC stand above the reconcilers and webhooks; there is no role
# before there is the first of them.
paths=()
for dir in controllers webhooks cmd/manager; do
  if grep -rqs '+kubebuilder:rbac' "$dir" --include='*.go'; then
    paths+=("paths=./$dir/...")
  fi
done
if [[ ${#paths[@]} != 0 ]]; then
  echo "generate: RBAC" >&2
  rm -f config/rbac/role.yaml
  "$controller_gen" rbac:roleName=manager-role "${paths[@]}" output:rbac:dir=config/rbac
  # The generator passes over markers in the comment of a type without a word.
  for resource in $(grep -rshoP '^// \+kubebuilder:rbac:.*resources=\K[^,\s]+' controllers webhooks cmd/manager --include='*.go' | tr ';' '\n' | sort -u); do
    if ! grep -qxF -- "  - $resource" config/rbac/role.yaml; then
      echo "generate: config/rbac/role.yaml does not have $resource, though a marker asks for it: put RBAC markers above a function, or in a comment of their own" >&2
      exit 1
    fi
  done
fi
echo "generate: reference" >&2
go run ./hack/reference .
