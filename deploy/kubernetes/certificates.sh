#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Makes the certificates that the overlays `deployment`, `replicas` and `followers`
# contain, by a new authority, for clusters without cert-manager.
#
#   deploy/kubernetes/certificates.sh [NAMESPACE...]
#
# Each of these overlays gets a file secrets.yaml, which git ignores, with the Secrets
# that its pods mount: of the servers, of etcd and of the servers as its clients, of
# a client that may change routes (planb-controller-tls), of followers. Printed are
# Secrets planb-client-tls, one for each NAMESPACE, of clients there; the policy lets
# those in network-functions look up:
#
#   deploy/kubernetes/certificates.sh network-functions | kubectl apply -f -
#
# The key of the authority is not kept and all end after a year: run it again before,
# and apply all. Servers take new certificates without a restart. etcd reads its
# authority at its start alone: then delete all its pods at once. Lookups go on.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
[[ ${1:-} != -* ]] || arguments 1 0
readonly DAYS=365
umask 077 # Keys.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../packages.sh" openssl >&2

# Nothing in Kubernetes wants passwords here.
new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${new_key[@]}" -subj '/CN=planb-authority' -days "$DAYS" \
  -keyout "$work/ca.key" -out "$work/ca.crt" 2> "$work/openssl.log" ||
  fail "openssl"

# secret NAMESPACE NAME COMMON_NAME DNS_NAME...
secret() {
  local names
  names=$(printf ',DNS:%s' "${@:4}")
  openssl req "${new_key[@]}" -subj "/CN=$3" -keyout "$work/tls.key" \
    -out "$work/tls.csr" 2> "$work/openssl.log" || fail "openssl"
  openssl x509 -req -in "$work/tls.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" \
    -days "$DAYS" -extfile <(echo "subjectAltName=${names:1}") \
    -out "$work/tls.crt" 2> "$work/openssl.log" || fail "openssl"
  cat << SECRET
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: $2
  namespace: $1
data:
SECRET
  local file
  for file in tls.crt tls.key ca.crt; do
    echo "  $file: $(base64 -w 0 "$work/$file")"
  done
}

declare -a servers=(localhost)
for service in planb-lookup planb-lookup-headless planb-lookup-feed; do
  servers+=("$service" "$service.planb" "$service.planb.svc"
    "$service.planb.svc.cluster.local")
done
{
  secret planb planb-tls planb-lookup "${servers[@]}"
  secret planb planb-controller-tls planb-controller planb-controller.planb.svc
} > "$work/deployment.yaml"
# Members call each other by the first. gRPC refuses a `*` before a single label: servers
# call members by the second. A member asks the DNS for the name of a caller's address,
# which is of the third kind.
secret planb planb-etcd-tls planb-etcd '*.planb-etcd' '*.planb-etcd.planb.svc' \
  '*.planb-etcd.planb.svc.cluster.local' localhost > "$work/replicas.yaml"
# The node's server has the name by which its pods call it, and the policy lets that
# name watch. The sidecars' certificate is a client's alone.
{
  secret planb-node planb-follower-tls planb-node planb-node.planb-node.svc
  secret planb-sidecar planb-follower-tls planb-sidecar planb-sidecar.planb-sidecar.svc
} > "$work/followers.yaml"
for namespace; do
  secret "$namespace" planb-client-tls planb-client \
    "planb-client.$namespace.svc.cluster.local"
done
# All or none: they are of one authority.
for overlay in deployment replicas followers; do
  mv "$work/$overlay.yaml" "$here/$overlay/secrets.yaml"
  echo "wrote $here/$overlay/secrets.yaml" >&2
done
