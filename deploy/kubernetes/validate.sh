#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Renders the kustomize overlays and validates them against the Kubernetes API's
# own description, strictly (a field that Kubernetes does not know is an error),
# and against manifest_rules.py. Certificates are made for a copy: those of the tree
# stay.
#
#   deploy/kubernetes/validate.sh [FOLDER]     (also leaves OVERLAY.yaml in FOLDER)
#
# Tools and schemas are pinned and kept under .cache. The last step spoils the
# manifests and expects to be told so.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
readonly KUBERNETES=1.33.13
readonly OVERLAYS=(sidecar daemonset deployment replicas followers router loadtest)

"$here/../packages.sh" import.yaml:python3-yaml openssl

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rendered=${1:-$work/rendered}
mkdir -p "$rendered"

tools=$("$here/../go_tool.sh" kustomize kubeconform)
{ read -r kustomize && read -r kubeconform; } <<< "$tools"

schemas=$here/../../.cache/kubeconform/v$KUBERNETES
if [[ ! -d "$schemas" ]]; then
  module=$("$here/../go_tool.sh" "k8s.io/kubernetes@v$KUBERNETES")
  python3 "$here/schemas.py" "$module/api/openapi-spec/swagger.json" \
    "$work/schemas"
  mkdir -p "$(dirname "$schemas")"
  mv "$work/schemas" "$schemas"
  rm -rf "$module" # 100 MB, of which one file was wanted.
fi

conform() {
  "$kubeconform" -strict -summary -schema-location \
    "$schemas/{{.ResourceKind}}{{.KindSuffix}}.json" "$@"
}

cp -r "$here/.." "$work/deploy"
tree=$work/deploy/kubernetes
rm -f "$tree"/*/secrets.yaml
# Without certificates nothing is rendered, let alone applied.
if "$kustomize" build "$tree/deployment" > "$work/out" 2>&1; then
  fail "the overlay deployment is rendered without certificates"
fi
grep -q 'secrets.yaml: no such file' "$work/out" || fail "$(cat "$work/out")"
"$tree/certificates.sh" 2> "$work/certificates.log" || fail "certificates.sh"

for overlay in "${OVERLAYS[@]}"; do
  "$kustomize" build "$tree/$overlay" > "$rendered/$overlay.yaml"
  conform "$rendered/$overlay.yaml" || fail "$overlay is not valid"
  # Users have the kustomize inside kubectl, which is usually older; Debian's is
  # too old for components.
  if command -v kubectl > /dev/null &&
    kubectl version --client 2> /dev/null | grep -q 'Kustomize Version: v5'; then
    kubectl kustomize "$tree/$overlay" | diff "$rendered/$overlay.yaml" - ||
      fail "kubectl renders $overlay differently"
  fi
done
"$here/manifest_rules.py" "$rendered"/*.yaml || fail "rules broken"

# The autoscaler's metric is the one that the adapter's rule makes.
metric=$(sed -n 's/^ *as: //p' "$here/deployment/metrics_adapter.yaml")
grep -q "name: $metric$" "$rendered/deployment.yaml" ||
  fail "the autoscaler does not ask for $metric"

# spoil OVERLAY NAME SED_SCRIPT MESSAGE COMMAND...: the manifests so changed
# must be refused.
controls=0
spoil() {
  local overlay=$1 name=$2 script=$3 message=$4
  shift 4
  sed "$script" "$rendered/$overlay.yaml" > "$work/spoilt.yaml"
  ! cmp -s "$rendered/$overlay.yaml" "$work/spoilt.yaml" ||
    fail "control '$name' spoils nothing"
  if "$@" "$work/spoilt.yaml" > "$work/out" 2>&1; then
    fail "control '$name' passed for valid"
  fi
  grep -q "$message" "$work/out" || fail "control '$name': $(cat "$work/out")"
  controls=$((controls + 1))
}
# breaks OVERLAY NAME SED_SCRIPT MESSAGE
breaks() {
  spoil "$@" "$here/manifest_rules.py"
}
for overlay in "${OVERLAYS[@]}"; do
  spoil "$overlay" "unknown field in $overlay" \
    's/readOnlyRootFilesystem/readOnlyRootFileSystem/' \
    "additional properties 'readOnlyRootFileSystem' not allowed" conform
  spoil "$overlay" "wrong type in $overlay" \
    's/failureThreshold: 60/failureThreshold: many/' \
    'got string, want integer' conform
done
spoil deployment 'unknown kind' 's/^kind: NetworkPolicy/kind: NetworkPolice/' \
  'could not find schema for NetworkPolice' conform
breaks sidecar 'token' '/automountServiceAccountToken/d' 'token is mounted'
breaks sidecar 'root' 's/runAsUser: 65532/runAsUser: 0/' 'runs as root'
breaks sidecar 'writable' 's/readOnlyRootFilesystem: true/tty: false/' \
  'can write its root'
breaks sidecar 'capability' 's/- ALL/- NET_RAW/' 'has capabilities'
breaks sidecar 'seccomp' 's/RuntimeDefault/Unconfined/' 'no seccomp'
breaks sidecar 'preStop' 's/^\( *\)name: planb-server$/&\n\1lifecycle: {preStop: {sleep: {seconds: 1}}}/' \
  'preStop hook'
breaks sidecar 'late drain' 's/drain_timeout=5s/drain_timeout=26s/' \
  'before it can have drained'
breaks sidecar 'startup waits for routes' '/service: startup/d' \
  'startupProbe does not ask'
breaks sidecar 'probe of a closed port' 's/health_address=.*/health_address=:1/' \
  'readinessProbe does not ask'
breaks sidecar 'plain TCP' 's/--listen=.*/&,[::]:50051/' 'plain text on'
breaks sidecar 'latest' 's/\(planb-lookup\):.*/\1:latest/' 'without a fixed tag'
breaks sidecar 'another version' 's/\(planb-lookup\):.*/\1:0.0.1/' \
  'in the manifests of version'
breaks daemonset 'too little memory' 's/memory: 384Mi/memory: 300Mi/' \
  'requests less memory'
breaks daemonset 'limit too low' 's/memory: 1536Mi/memory: 1Gi/' \
  'memory limit below'
breaks deployment 'no preStop' 's/seconds: 5$/seconds: 1/' 'Services still lead to it'
breaks deployment 'late drain' 's/drain_timeout=5s/drain_timeout=11s/' \
  'before it can have drained'
breaks deployment 'no TLS' '/--tls_cert/d' 'plain text on'
breaks deployment 'selects nothing' \
  's/^    app.kubernetes.io\/name: planb-lookup$/    other: label/' \
  'selects no pod'
breaks replicas 'etcd as root' 's/runAsUser: 65532/runAsUser: 0/' 'runs as root'
breaks replicas 'certificates elsewhere' 's/^  name: planb-etcd-tls$/  name: other/' \
  'mounts the Secret planb-etcd-tls, which is not there'
breaks deployment 'routes elsewhere' 's/^  name: planb-routes-/&x/' \
  'mounts the ConfigMap planb-routes-'
breaks router 'a capability more' 's/- NET_RAW/&\n            - SYS_PTRACE/' \
  'has capabilities'
breaks router 'the feed as root' 's/runAsUser: 65533/runAsUser: 0/' 'runs as root'
breaks router 'a privileged forwarder' 's/^\( *\)runAsGroup: 65532$/&\n\1privileged: true/' \
  'forwarder: is privileged'
breaks router 'another forwarder' 's/\(planb-router\):.*/\1:0.0.1/' \
  'in the manifests of version'
breaks router 'FRR can write' 's/readOnlyRootFilesystem: true/tty: false/' \
  'zebra: can write its root'
breaks followers 'plain TCP on the node' '/--tls_key/d' 'plain text on'
echo "PASS: ${#OVERLAYS[@]} overlays valid for Kubernetes $KUBERNETES;" \
  "$controls spoilt variants refused"
