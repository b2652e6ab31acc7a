#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Prints the Secrets that the overlays wait for, with certificates of a new
# authority, for clusters without cert-manager.
#
#   deploy/kubernetes/certificates.sh [--followers] [NAMESPACE...] | kubectl apply -f -
#
# They are, in the namespace planb: planb-tls, of the servers; planb-etcd-tls, of
# etcd and of the servers as its clients; planb-controller-tls, of a client that
# may change routes (policy/cluster.json). And planb-client-tls in each NAMESPACE,
# of clients there; the policy lets those in network-functions look up. --followers is
# for the overlay `followers`: planb-follower-tls in planb-node, of each node's server,
# and in planb-sidecar, of sidecars, which only call those.
#
# The key of the authority is not kept and all end after a year: run it again
# before, for all of them. Servers take new ones without a restart.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
followers=''
if [[ ${1:-} == --followers ]]; then
  followers=yes
  shift
fi
[[ ${1:-} != -* ]] || arguments 1 0
readonly DAYS=365
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
secret planb planb-tls planb-lookup "${servers[@]}"
# Members call each other by the first. gRPC refuses a `*` before a single label: servers
# call members by the second. A member asks the DNS for the name of a caller's address,
# which is of the third kind.
secret planb planb-etcd-tls planb-etcd '*.planb-etcd' '*.planb-etcd.planb.svc' \
  '*.planb-etcd.planb.svc.cluster.local' localhost
secret planb planb-controller-tls planb-controller planb-controller.planb.svc
if [[ -n "$followers" ]]; then
  secret planb-node planb-follower-tls planb-node planb-node.planb-node.svc
  secret planb-sidecar planb-follower-tls planb-sidecar planb-sidecar.planb-sidecar.svc
fi
for namespace; do
  secret "$namespace" planb-client-tls planb-client \
    "planb-client.$namespace.svc.cluster.local"
done
