#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Makes the certificates that the overlays `deployment`, `replicas` and `followers`
# contain, by two new authorities, for clusters without cert-manager. One has signed
# what is of etcd alone, which lets every certificate of its authority write.
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
# The keys of the authorities are not kept and all end after a year: run it again
# before, and apply all. Servers take new certificates without a restart. etcd reads its
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
for authority in planb etcd; do
  openssl req -x509 "${new_key[@]}" -subj "/CN=$authority-authority" -days "$DAYS" \
    -keyout "$work/$authority.key" -out "$work/$authority.crt" 2> "$work/openssl.log" ||
    fail "openssl"
done

# secret AUTHORITY NAMESPACE NAME COMMON_NAME DNS_NAME...
secret() {
  local names
  names=$(printf ',DNS:%s' "${@:5}")
  cp "$work/$1.crt" "$work/ca.crt"
  openssl req "${new_key[@]}" -subj "/CN=$4" -keyout "$work/tls.key" \
    -out "$work/tls.csr" 2> "$work/openssl.log" || fail "openssl"
  openssl x509 -req -in "$work/tls.csr" -CA "$work/$1.crt" -CAkey "$work/$1.key" \
    -days "$DAYS" -extfile <(echo "subjectAltName=${names:1}") \
    -out "$work/tls.crt" 2> "$work/openssl.log" || fail "openssl"
  cat << SECRET
---
apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata:
  name: $3
  namespace: $2
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
  secret planb planb planb-tls planb-lookup "${servers[@]}"
  secret planb planb planb-controller-tls planb-controller planb-controller.planb.svc
} > "$work/deployment.yaml"
# Members call each other by the first. gRPC refuses a `*` before a single label: servers
# call members by the second. A member asks the DNS for the name of a caller's address,
# which is of the third kind.
secret etcd planb planb-etcd-tls planb-etcd '*.planb-etcd' '*.planb-etcd.planb.svc' \
  '*.planb-etcd.planb.svc.cluster.local' localhost > "$work/replicas.yaml"
# The node's server has the name by which its pods call it, and the policy lets that
# name watch. The sidecars' certificate is a client's alone.
{
  secret planb planb-node planb-follower-tls planb-node planb-node.planb-node.svc
  secret planb planb-sidecar planb-follower-tls planb-sidecar planb-sidecar.planb-sidecar.svc
} > "$work/followers.yaml"
for namespace; do
  secret planb "$namespace" planb-client-tls planb-client \
    "planb-client.$namespace.svc.cluster.local"
done
# All or none: the authorities are new.
for overlay in deployment replicas followers; do
  mv "$work/$overlay.yaml" "$here/$overlay/secrets.yaml"
  echo "wrote $here/$overlay/secrets.yaml" >&2
done
