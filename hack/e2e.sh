#!/usr/bin/env bash
# Runs the end-to-end tests: real packages on two real nodes on this machine.
#
#   hack/e2e.sh [REGEXP]
#
# Needs Linux and root; says so and does nothing else without them. What Debian
# has of it (containerd, runc, a static busybox) is installed if it is missing;
# neither containerd is started by that, nor one that runs already is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
  echo "e2e: skipped: $*"
  exit 0
}

[[ $(uname -s) == Linux ]] || skip "real nodes need Linux"
[[ $(id -u) == 0 ]] || skip "real nodes need root: namespaces, mounts and cgroups are made; try sudo make e2e"

missing=()
for package in containerd:containerd runc:runc busybox-static:/bin/busybox; do
  command -v "${package#*:}" >/dev/null || missing+=("${package%%:*}")
done
if ((${#missing[@]})); then
  command -v apt-get >/dev/null || skip "install ${missing[*]}"
  echo "e2e: installing ${missing[*]}"
  # A service that is installed must not start: nodes run a containerd of their own.
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f "$policy"' EXIT
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null ||
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; }
  rm -f "$policy"
fi

assets=$(go run ./hack/assets kube-apiserver etcd kubectl kube-controller-manager kube-scheduler kubelet \
  cert-manager-controller cert-manager-cainjector)
KUBEBUILDER_ASSETS=$assets PATH=$assets:$PATH \
  go test ./test/e2e -e2e -v -count 1 -parallel 32 -timeout 60m ${1:+-run "$1"}
