#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs the overlays on a real one-node Kubernetes, while servers are killed,
# restarted, upgraded and fed under their callers.
#
#   deploy/kubernetes/node_test.sh ARCHIVE.tar FOLDER
#
# ARCHIVE is image.sh's, FOLDER is validate.sh's with the rendered overlays.
# Callers are `planbctl soak`, through the client library: it ends with 0 if no
# batch failed and no answer was wrong, whatever happened to the server. Takes
# some minutes, most of them the kubelet's waits between restarts. Not part of
# deploy/test.sh. Changed in the manifests are CPU requests, for small machines,
# and the node's folder. Exit code 77 (skipped) where no node can run.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)

(($# == 2)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}
archive=$1 rendered=$2

skip() {
  echo "SKIP: $*"
  exit 77
}
# shellcheck source=SCRIPTDIR/control_plane.sh
source "$here/control_plane.sh"
# shellcheck source=SCRIPTDIR/node.sh
source "$here/node.sh"
why=$(why_no_node) && skip "$why"
"$here/packages.sh" etcd:etcd-server kubectl:kubernetes-client openssl:openssl \
  containerd:containerd runc:runc buildah:buildah ip:iproute2 \
  || skip "packages are missing"
[[ -x /usr/lib/cni/bridge ]] ||
  "$here/packages.sh" none:containernetworking-plugins || true
bin=$("$here/build.sh" kube-apiserver kube-controller-manager kube-scheduler \
  kubelet)

work=$(mktemp -d /tmp/planb_node.XXXXXX) # Short: sockets' paths have limits.
chmod 755 "$work"
trap 'stop_node "$work"; rm -rf "$work"' EXIT
fail() {
  echo "FAIL: $*" >&2
  kubectl get pods --all-namespaces -o wide >&2 || true
  kubectl get events --all-namespaces --sort-by=.lastTimestamp 2> /dev/null |
    tail -n 15 >&2 || true
  tail -n 5 "$work"/*.out >&2 || true
  exit 1
}
say() {
  printf 'node: %3d s  %s\n' "$SECONDS" "$*"
}

# Another image, as an upgrade brings one: the same programs, another digest.
store=(buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs)
container=$("${store[@]}" from --quiet "docker-archive:$archive")
"${store[@]}" config --label org.opencontainers.image.version=next "$container"
"${store[@]}" commit --quiet "$container" \
  "docker-archive:$work/next.tar:localhost/planb-lookup:next" > /dev/null

start_api "$work" "$bin" --allow-privileged=true \
  --kubelet-preferred-address-types=InternalIP
start_node "$work" "$bin" "$archive" "$work/next.tar"
say "$(kubectl get nodes --no-headers | xargs)"

apply() {
  mkdir -p "$work/host"
  sed -e 's/cpu: .*/cpu: 50m/' -e "s|path: /run/planb$|path: $work/host/planb|" \
    "$rendered/$1.yaml" |
    kubectl apply --server-side -f - > "$work/applied.out" 2>&1 ||
    fail "apply $1"
}
# pod NAMESPACE APP: the name of its one pod.
pod() {
  kubectl -n "$1" get pods -l "app.kubernetes.io/name=$2" \
    -o 'jsonpath={.items[0].metadata.name}'
}
# server NAMESPACE POD FIELD: of the status of its container planb-server.
server() {
  kubectl -n "$1" get pod "$2" -o json | /usr/bin/python3 -c '
import json, sys
status = json.load(sys.stdin)["status"]
every = status.get("initContainerStatuses", []) + status["containerStatuses"]
(server,) = [c for c in every if c["name"] == "planb-server"]
print(server[sys.argv[1]])' "$3"
}
# await WHAT COMMAND...: until it succeeds; the kubelet waits longer after each
# restart.
await() {
  local what=$1 deadline=$((SECONDS + 240))
  shift
  until "$@" > "$work/await.out" 2>&1; do
    ((SECONDS < deadline)) || fail "$what: $(cat "$work/await.out")"
    sleep 0.5
  done
}
is_ready() { # NAMESPACE POD RESTARTS
  [[ "$(server "$1" "$2" restartCount)" == "$3" &&
    "$(server "$1" "$2" ready)" == True ]]
}
lookups() { # NAMESPACE POD
  local address
  address=$(kubectl -n "$1" get pod "$2" -o 'jsonpath={.status.podIP}')
  curl --fail --silent --max-time 5 "http://$address:9464/metrics" |
    awk '$1 ~ /^planb_lookups_total({.*)?$/ { sum += $2 }
      END { printf "%.0f\n", sum }'
}
goes_on() { # NAMESPACE POD
  local before
  before=$(lookups "$1" "$2") || fail "no metrics of $2"
  await "lookups in $1" bash -c "(( \$(lookups $1 $2) > $before ))"
}
export -f lookups
kill_server() { # NAMESPACE POD
  local id
  id=$(server "$1" "$2" containerID)
  node_ctr "$work" tasks kill --signal SIGKILL "${id#containerd://}"
}
# follow NAMESPACE POD CONTAINER: its log to the end, in the background.
follow() {
  kubectl -n "$1" logs --follow --timestamps "$2" -c "$3" \
    > "$work/$2.$3.out" 2>&1 &
}
# sound FILE RECONNECTS: what a caller says at its end.
sound() {
  grep -E '0 wrong answers; batches failed: none; ' "$1" > "$work/report" ||
    fail "a caller says: $(tail -n 1 "$1")"
  local times
  times=$(sed 's/.* \([0-9]*\) reconnects.*/\1/' "$work/report")
  ((times >= $2)) || fail "$times reconnects: $(cat "$work/report")"
  say "its caller: $(cut -d ' ' -f 2- "$work/report")"
}

for scenario in sidecar daemonset deployment; do
  # shellcheck source=SCRIPTDIR/scenario_sidecar.sh
  source "$here/scenario_$scenario.sh"
done
echo "PASS: a real node; no lookup lost while servers were killed and upgraded"
