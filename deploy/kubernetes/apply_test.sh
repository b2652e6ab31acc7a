#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Applies the overlays to a real API server: etcd and kube-apiserver, no nodes.
#
#   deploy/kubernetes/apply_test.sh FOLDER
#
# FOLDER is validate.sh's, with the rendered overlays. What the API server says,
# Pod Security included, is what a cluster would say. Exit code 77 (skipped)
# where kube-apiserver is not built and PLANB_KUBERNETES is not "yes": building
# it takes minutes. As root it installs etcd and kubectl where they are missing.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
readonly RESTRICTED=(sidecar deployment loadtest)

(($# == 1)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
rendered=$1

skip() {
  echo "SKIP: $*"
  exit 77
}
bin=$(PLANB_KUBERNETES=${PLANB_KUBERNETES:-cached} "$here/build.sh" \
  kube-apiserver) || {
  (($? == 77)) && skip "kube-apiserver is not built; PLANB_KUBERNETES=yes does"
  exit 1
}
"$here/packages.sh" etcd:etcd-server kubectl:kubernetes-client \
  openssl:openssl || skip "etcd, kubectl or openssl is not installed"

work=$(mktemp -d)
# shellcheck source=SCRIPTDIR/control_plane.sh
source "$here/control_plane.sh"
trap 'stop_all; rm -rf "$work"' EXIT
fail() {
  echo "FAIL: $*" >&2
  exit 1
}

# Nobody makes service accounts here, and pods want one.
start_api "$work" "$bin" --disable-admission-plugins=ServiceAccount
echo "apply: $(kubectl version 2> /dev/null | grep -i server)"

# apply FILE [FLAG...]: prints warnings and errors.
apply() {
  local file=$1
  shift
  { kubectl apply --server-side --field-manager=test -f "$file" "$@" \
    > "$work/applied"; } 2>&1
}
split() { # OVERLAY: its Namespace, and the pods that its workloads would make
  /usr/bin/python3 - "$rendered/$1.yaml" "$work/$1" << 'PYTHON'
import sys, yaml
documents = list(yaml.safe_load_all(open(sys.argv[1])))
pods = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": document["metadata"]["name"],
            "namespace": document["metadata"]["namespace"],
        },
        "spec": document["spec"]["template"]["spec"],
    }
    for document in documents
    if "template" in document.get("spec", {})
]
spaces = [d for d in documents if d["kind"] == "Namespace"]
yaml.safe_dump_all(spaces, open(sys.argv[2] + ".namespace.yaml", "w"))
yaml.safe_dump_all(pods, open(sys.argv[2] + ".pods.yaml", "w"))
PYTHON
}

for overlay in "${RESTRICTED[@]}" daemonset; do
  split "$overlay"
  apply "$work/$overlay.namespace.yaml" || fail "the namespace of $overlay"
  # First as a rehearsal, then for good; then there is nothing left to do.
  warnings=$(apply "$rendered/$overlay.yaml" --dry-run=server) ||
    fail "dry run of $overlay: $warnings"
  warnings=$(apply "$rendered/$overlay.yaml") || fail "$overlay: $warnings"
  difference=$(kubectl diff --server-side --field-manager=test \
    -f "$rendered/$overlay.yaml" 2>&1) ||
    fail "$overlay is not what was applied: $difference"
  pods=$(apply "$work/$overlay.pods.yaml" --dry-run=server) ||
    fail "pods of $overlay: $pods"
  printf '%s\n' "$warnings" "$pods" | grep . > "$work/$overlay.warnings" || true
  echo "apply: $overlay: $(grep -c . < "$rendered/$overlay.yaml") lines," \
    "$(wc -l < "$work/$overlay.warnings") warnings"
done

for overlay in "${RESTRICTED[@]}"; do
  [[ ! -s "$work/$overlay.warnings" ]] ||
    fail "$overlay: $(cat "$work/$overlay.warnings")"
done
# What the node's folder costs, and no more.
allowed='restricted volume types \(volume "planb-socket" uses'
allowed+='|runAsNonRoot != true \(container "own-folder"'
allowed+='|runAsUser=0 \(container "own-folder"'
[[ -s "$work/daemonset.warnings" ]] || fail "no warning about the hostPath"
unexpected=$(sed 's/^[^:]*: would violate PodSecurity "[^"]*": //' \
  "$work/daemonset.warnings" | sed 's/), /)\n/g' | grep -vE "^($allowed)" ||
  true)
[[ -z "$unexpected" ]] || fail "daemonset: $unexpected"

policy=$(kubectl -n planb-sidecar get deployment network-function -o \
  'jsonpath={.spec.template.spec.initContainers[?(@.name=="planb-server")].restartPolicy}')
[[ "$policy" == Always ]] || fail "no native sidecar: $policy"

# refused NAME FILE SED_SCRIPT MESSAGE
refused() {
  sed "$3" "$2" > "$work/spoilt.yaml"
  ! cmp -s "$2" "$work/spoilt.yaml" || fail "control '$1' spoils nothing"
  if apply "$work/spoilt.yaml" --dry-run=server > "$work/out"; then
    fail "control '$1' was accepted"
  fi
  grep -q "$4" "$work/out" || fail "control '$1': $(cat "$work/out")"
}
refused 'unknown field' "$rendered/sidecar.yaml" \
  's/readOnlyRootFilesystem/readOnlyRootFileSystem/' \
  'field not declared in schema'
refused 'value out of range' "$rendered/deployment.yaml" \
  's/port: 50051/port: 150051/' 'must be between 1 and 65535'
refused 'a sidecar that is none' "$rendered/sidecar.yaml" \
  's/restartPolicy: Always/restartPolicy: Never/' 'restartPolicy'
refused 'root' "$work/sidecar.pods.yaml" \
  's/runAsNonRoot: true/runAsNonRoot: false/' 'violates PodSecurity "restricted'
refused 'capabilities' "$work/deployment.pods.yaml" 's/- ALL/- CHOWN/' \
  'violates PodSecurity "restricted'
echo "PASS: a real API server takes the overlays, without a warning but for" \
  "the hostPath, and refuses 5 spoilt variants"
