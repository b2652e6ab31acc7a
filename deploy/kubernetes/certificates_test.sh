#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests Secrets with certificates by a real server, which serves mutual TLS with
# policy/cluster.json, and clients.
#
#   deploy/kubernetes/certificates_test.sh FOLDER [MANIFESTS SERVER CONTROLLER]
#
# FOLDER has planb_server and planbctl. MANIFESTS has the two Secrets; without it,
# those of certificates.sh are tested, with an etcd that has its Secret too.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 4
folder=$(realpath "$1")
manifests=${2:-} server=${3:-planb-tls} controller=${4:-planb-controller-tls}
work=$(mktemp -d)
trap cleanup EXIT
"$here/../packages.sh" openssl import.yaml:python3-yaml
[[ -n "$manifests" ]] || {
  "$here/../packages.sh" etcd:etcd-server
  manifests=$work/secrets.yaml
  "$here/certificates.sh" network-functions > "$manifests"
}

# A folder for each Secret, as a pod mounts it.
/usr/bin/python3 - "$manifests" "$work" << 'PYTHON'
import base64, pathlib, sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if document and document["kind"] == "Secret":
        folder = pathlib.Path(sys.argv[2]) / document["metadata"]["name"]
        folder.mkdir()
        for name, text in document["data"].items():
            (folder / name).write_bytes(base64.b64decode(text, validate=True))
PYTHON

# tls PREFIX SECRET: flags that name the files of a client.
tls() {
  printf -- '--%s%s ' "$1" "ca=$work/$2/ca.crt" "$1" "cert=$work/$2/tls.crt" \
    "$1" "key=$work/$2/tls.key"
}
store=none
if [[ -d "$work/planb-etcd-tls" ]]; then
  client=$(free_port) peer=$(free_port)
  etcd --data-dir "$work/etcd" --listen-client-urls "https://localhost:$client" \
    --advertise-client-urls "https://localhost:$client" \
    --listen-peer-urls "https://localhost:$peer" \
    --initial-advertise-peer-urls "https://localhost:$peer" \
    --initial-cluster "default=https://localhost:$peer" \
    --cert-file "$work/planb-etcd-tls/tls.crt" --key-file "$work/planb-etcd-tls/tls.key" \
    --trusted-ca-file "$work/planb-etcd-tls/ca.crt" --client-cert-auth \
    --peer-cert-file "$work/planb-etcd-tls/tls.crt" \
    --peer-key-file "$work/planb-etcd-tls/tls.key" \
    --peer-trusted-ca-file "$work/planb-etcd-tls/ca.crt" --peer-client-cert-auth \
    2> "$work/etcd.log" &
  server_pid[etcd]=$!
  store=etcd://localhost:$client/planb
fi
port=$(free_port)
# shellcheck disable=SC2046 # Words, without spaces in them.
start_server planb "$folder/planb_server" --listen="127.0.0.1:$port" \
  --metrics_address= --store="$store" $(tls etcd_ planb-etcd-tls) \
  --tls_cert="$work/$server/tls.crt" --tls_key="$work/$server/tls.key" \
  --tls_client_ca="$work/$server/ca.crt" \
  --authorization_policy="$here/policy/cluster.json"

# as SECRET NAME COMMAND...: planbctl with that certificate calls that name.
as() {
  # shellcheck disable=SC2046
  "$folder/planbctl" "${@:3}" --server="127.0.0.1:$port" $(tls tls_ "$1") \
    --tls_server_name="$2" --timeout=10s > "$work/out.log" 2>&1
}
refused() { # WITH ...: as `as`
  if as "${@:2}"; then
    fail "not refused: ${*:2}"
  fi
  grep -q "$1" "$work/out.log" || fail "refused, but not as $1: ${*:2}"
}
# The names by which pods call: those in the server's own certificate.
mapfile -t names < <(openssl x509 -in "$work/$server/tls.crt" -noout -ext subjectAltName |
  grep -oE 'DNS:[^,]+' | cut -d: -f2)
((${#names[@]} == 13)) || fail "names: ${names[*]}"
for name in "${names[@]}"; do
  as "$controller" "$name" announce 2001:db8::/32 7 || fail "announce to $name"
done
as "$controller" localhost lookup 2001:db8::1
grep -q 'next hop 7' "$work/out.log" || fail "the wrong answer"
refused '' "$controller" elsewhere.example lookup 2001:db8::1
# The server's own certificate has a name that the policy does not know.
refused PERMISSION_DENIED "$server" localhost lookup 2001:db8::1
if [[ -d "$work/planb-client-tls" ]]; then
  as planb-client-tls localhost lookup 2001:db8::1 || fail "a client's lookup"
  refused PERMISSION_DENIED planb-client-tls localhost announce 2001:db8::/32 8
fi
stop_server planb
echo "PASS: a server with $server obeys $controller, by ${#names[@]} names, and no other"
