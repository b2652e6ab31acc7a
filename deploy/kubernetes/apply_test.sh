#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Applies the overlays, and the chart by helm, to a real API server: etcd and
# kube-apiserver, no nodes.
#
#   deploy/kubernetes/apply_test.sh FOLDER
#
# FOLDER is validate.sh's, with the rendered overlays. What the API server says,
# Pod Security included, is what a cluster would say. PLANB_KUBERNETES=yes builds
# kube-apiserver from the Go module proxy, once, in 400 CPU seconds and 4 GB of
# room; it is kept under .cache. Exit code 77 (skipped) where it is not built. As
# root it installs etcd and kubectl where they are missing.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
readonly RESTRICTED=(sidecar deployment replicas loadtest)
readonly VERSION=1.33.13
# Of the one module. Its own go.sum holds all others to theirs, but for the
# parts of Kubernetes itself, which Go's checksum database vouches for.
readonly SUM='h1:bmH31xUdSzeA5vk0wZAK9MZp11mdLuzUSeKk0qN3hPQ='

arguments $# 1
rendered=$1
work=$(mktemp -d)
declare -a started=()
# Ends what was started, last first.
cleanup() {
  local index
  for ((index = ${#started[@]} - 1; index >= 0; --index)); do
    kill "${started[index]}" 2> /dev/null || continue
    timeout 10 tail --pid="${started[index]}" -f /dev/null ||
      kill -KILL "${started[index]}" 2> /dev/null || true
  done
  wait
  rm -rf "$work"
}
trap cleanup EXIT

# build FOLDER: leaves kube-apiserver there.
build() (
  started_at=$SECONDS
  go=$("$here/../go_tool.sh" go)
  mkdir -p "$1"
  # A cache of one's own can be thrown away: only the program stays.
  export GOMODCACHE=$work/mod GOCACHE=$work/build GOTOOLCHAIN=local
  export GOFLAGS='-mod=mod -modcacherw' GO111MODULE=on CGO_ENABLED=0
  unset GOBIN GOROOT GOOS GOARCH
  mkdir "$work/module"
  cd "$work/module"
  echo 'module planb.local/kubernetes' > go.mod
  answer=$("$go" mod download -json "k8s.io/kubernetes@v$VERSION") ||
    fail "cannot fetch: $answer"
  grep -qF "\"Sum\": \"$SUM\"" <<< "$answer" || fail "unexpected sum: $answer"
  upstream=$GOMODCACHE/k8s.io/kubernetes@v$VERSION
  # Inside Kubernetes' repository its parts are folders; outside, modules of
  # their own with the version 0.x of the same release.
  "$go" mod edit -json "$upstream/go.mod" | python3 -c '
import json, sys
version = sys.argv[1]
module = json.load(sys.stdin)
print("module planb.local/kubernetes")
print("go", module["Go"])
print(f"require k8s.io/kubernetes v{version}")
for replace in module["Replace"]:
    if replace["New"]["Path"].startswith("./staging/"):
        path = replace["Old"]["Path"]
        print(f"replace {path} => {path} v0.{version.partition(chr(46))[2]}")
' "$VERSION" > go.mod
  cp "$upstream/go.sum" go.sum
  # Or the program would call itself v0.0.0.
  stamp=
  for pair in gitVersion="v$VERSION" gitMajor="${VERSION%%.*}" \
    gitMinor="$(cut -d. -f2 <<< "$VERSION")" gitTreeState=clean \
    gitCommit=unknown buildDate=1970-01-01T00:00:00Z; do
    stamp+=" -X k8s.io/component-base/version.$pair"
  done
  "$go" build -trimpath -ldflags "-s -w$stamp" -o "$work/kube-apiserver" \
    k8s.io/kubernetes/cmd/kube-apiserver
  mv "$work/kube-apiserver" "$1/"
  echo "apply: built kube-apiserver in $((SECONDS - started_at)) s"
)

api=$here/../../.cache/kubernetes/v$VERSION
if [[ ! -x "$api/kube-apiserver" && "${PLANB_KUBERNETES:-}" != yes ]]; then
  echo "SKIP: kube-apiserver is not built; PLANB_KUBERNETES=yes does"
  exit 77
fi
"$here/../packages.sh" etcd:etcd-server kubectl:kubernetes-client openssl || exit
[[ -x "$api/kube-apiserver" ]] || build "$api"

# run NAME COMMAND...: in the background; its log is NAME.log.
run() {
  "${@:2}" > "$work/$1.log" 2>&1 &
  started+=("$!")
}
# The administrator comes by TLS, with a token and the certificate that
# kube-apiserver makes for itself.
read -r client peer port <<< "$(python3 -c '
import socket
sockets = [socket.socket() for _ in range(3)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*[each.getsockname()[1] for each in sockets])')"
token=$(openssl rand -hex 24)
(umask 077 && echo "$token,admin,admin,system:masters" > "$work/tokens.csv")
cat > "$work/kubeconfig" << CONFIG
apiVersion: v1
kind: Config
clusters:
  - name: test
    cluster:
      server: https://127.0.0.1:$port
      certificate-authority: $work/certificates/apiserver.crt
users:
  - name: test
    user: {token: $token}
contexts:
  - name: test
    context: {cluster: test, user: test}
current-context: test
CONFIG
export KUBECONFIG=$work/kubeconfig
openssl genrsa -out "$work/accounts.key" 2048 2> /dev/null
run etcd etcd --data-dir "$work/etcd" --unsafe-no-fsync \
  --listen-client-urls "http://127.0.0.1:$client" \
  --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" \
  --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "default=http://127.0.0.1:$peer"
# Service accounts are not made here, and pods would want one. Privileged containers are
# allowed as kubeadm allows them: Pod Security says where.
run kube-apiserver "$api/kube-apiserver" \
  --etcd-servers="http://127.0.0.1:$client" --bind-address=127.0.0.1 \
  --advertise-address=127.0.0.1 --secure-port="$port" \
  --cert-dir="$work/certificates" --token-auth-file="$work/tokens.csv" \
  --authorization-mode=RBAC --disable-admission-plugins=ServiceAccount \
  --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file="$work/accounts.key" \
  --service-account-signing-key-file="$work/accounts.key" \
  --allow-privileged=true --service-cluster-ip-range=10.96.0.0/16
deadline=$((SECONDS + 120))
until kubectl get --raw /readyz > /dev/null 2>&1; do
  if ! kill -0 "${started[-1]}" 2> /dev/null || ((SECONDS >= deadline)); then
    fail "no API server: $(tail -n 20 "$work/etcd.log" "$work"/kube-*.log)"
  fi
  sleep 0.2
done
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
for document in documents:
    # What a StatefulSet adds to its pods.
    for claim in document.get("spec", {}).get("volumeClaimTemplates", []):
        name = claim["metadata"]["name"]
        document["spec"]["template"]["spec"].setdefault("volumes", []).append(
            {"name": name, "persistentVolumeClaim": {"claimName": name}})
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

for overlay in "${RESTRICTED[@]}" daemonset followers router; do
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
for overlay in daemonset followers; do
  [[ -s "$work/$overlay.warnings" ]] || fail "no warning about the hostPath"
  unexpected=$(sed 's/^[^:]*: would violate PodSecurity "[^"]*": //' \
    "$work/$overlay.warnings" | sed 's/), /)\n/g' | grep -vE "^($allowed)" ||
    true)
  [[ -z "$unexpected" ]] || fail "$overlay: $unexpected"
done

# The chart, by the real helm: installed, upgraded, rolled back, removed.
helm=$("$here/../go_tool.sh" helm)
export HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm
kubectl create namespace planb-helm > /dev/null
kubectl label namespace planb-helm pod-security.kubernetes.io/enforce=restricted \
  pod-security.kubernetes.io/warn=restricted > /dev/null
release() { # COMMAND [ARGUMENT...]: prints warnings and errors
  { "$helm" "$1" routes "${@:2}" --namespace planb-helm > "$work/helm.out"; } 2>&1
}
of_release() {
  kubectl -n planb-helm get -o name \
    deployment,service,secret,configmap,networkpolicy,poddisruptionbudget,hpa \
    -l app.kubernetes.io/instance=routes
}
readonly CHART=$here/../helm/planb-lookup
certificates() {
  kubectl -n planb-helm get secret routes-tls routes-client-tls -o jsonpath='{.items[*].data}'
}
said=$(release install "$CHART") || fail "helm install: $said"
made=$(certificates)
said+=$(release upgrade "$CHART" --set autoscaling.enabled=true \
  --set flags.log_level=debug) || fail "helm upgrade: $said"
of_release | grep -q horizontalpodautoscaler || fail "the upgrade made no autoscaler"
[[ "$(certificates)" == "$made" ]] || fail "the upgrade made other certificates"
kubectl -n planb-helm get deployment -o yaml -l app.kubernetes.io/instance=routes \
  > "$work/helm.yaml"
grep -q -- '--log_level=debug' "$work/helm.yaml" || fail "the upgrade set no flag"
/usr/bin/python3 - "$work/helm.yaml" > "$work/helm.pods.yaml" << 'PYTHON'
import sys, yaml
[deployment] = yaml.safe_load(open(sys.argv[1]))["items"]
yaml.safe_dump({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "planb-helm"},
                "spec": deployment["spec"]["template"]["spec"]}, sys.stdout)
PYTHON
said+=$(apply "$work/helm.pods.yaml" --dry-run=server) || fail "pods of the chart: $said"
said+=$(release rollback 1) || fail "helm rollback: $said"
if of_release | grep -q horizontalpodautoscaler; then
  fail "the autoscaler is there after the rollback"
fi
said+=$(release uninstall) || fail "helm uninstall: $said"
[[ -z "$(of_release)" ]] || fail "left by helm: $(of_release)"
[[ -z "$said" ]] || fail "warnings of the chart: $said"
echo "apply: the chart: installed, upgraded, rolled back, removed; 0 warnings"

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
echo "PASS: a real API server takes overlays and chart, without a warning but for" \
  "the hostPath, and refuses 5 spoilt variants"
