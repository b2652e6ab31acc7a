#!/bin/bash
# Renders the kustomize example and validates it against the Kubernetes API's
# own description, strictly: a field that Kubernetes does not know is an error.
#
#   deploy/validate.sh [RENDERED]     (also leaves the manifests in RENDERED)
#
# Tools and schemas are pinned and kept under .cache. The last step spoils the
# manifests and expects to be told so.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
readonly KUBERNETES=1.33.13

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rendered=${1:-$work/rendered.yaml}

fail() {
  echo "FAIL: $*" >&2
  exit 1
}

tools=$("$here/go_tool.sh" kustomize kubeconform)
{ read -r kustomize && read -r kubeconform; } <<< "$tools"

schemas=$here/../.cache/kubeconform/v$KUBERNETES
if [[ ! -d "$schemas" ]]; then
  module=$("$here/go_tool.sh" "k8s.io/kubernetes@v$KUBERNETES")
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

"$kustomize" build "$here/sidecar" > "$rendered"
conform "$rendered" || fail "the rendered example is not valid"

# spoil NAME SED_SCRIPT MESSAGE: the manifests so changed must be refused.
spoil() {
  sed "$2" "$rendered" > "$work/spoilt.yaml"
  ! cmp -s "$rendered" "$work/spoilt.yaml" || fail "control '$1' spoils nothing"
  if conform "$work/spoilt.yaml" > "$work/out" 2>&1; then
    fail "control '$1' passed for valid"
  fi
  grep -q "$3" "$work/out" || fail "control '$1': $(cat "$work/out")"
}
spoil 'unknown field' 's/readOnlyRootFilesystem/readOnlyRootFileSystem/' \
  "additional properties 'readOnlyRootFileSystem' not allowed"
spoil 'wrong type' 's/failureThreshold: 60/failureThreshold: many/' \
  'got string, want integer'
spoil 'unknown kind' 's/^kind: NetworkPolicy/kind: NetworkPolice/' \
  'could not find schema for NetworkPolice'
echo "PASS: valid for Kubernetes $KUBERNETES; 3 spoilt variants refused"
