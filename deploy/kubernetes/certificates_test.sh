#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests Secrets with certificates by a real server, which serves mutual TLS with
# policy/cluster.json, and clients.
#
#   deploy/kubernetes/certificates_test.sh FOLDER [MANIFESTS SERVER CONTROLLER]
#
# FOLDER has planb_server and planbctl. MANIFESTS has the two Secrets; without it,
# those of certificates.sh are tested, and the overlays `replicas` and `followers` with
# them: etcd lets no certificate but its own in; etcd's members, the server and its followers have the flags of the manifests,
# each member a network of its own, and names come from a DNS that answers as a
# cluster's does. That part needs root; exit code 77 (skipped) without it, after the
# others passed.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 4
folder=$(realpath "$1")
manifests=${2:-} server=planb/${3:-planb-tls} controller=planb/${4:-planb-controller-tls}
work=$(mktemp -d)
trap cleanup EXIT
"$here/../packages.sh" openssl import.yaml:python3-yaml ip:iproute2
overlays='' without=''
if [[ -z "$manifests" ]]; then
  "$here/../packages.sh" etcd:etcd-server
  # Of a copy: those of the tree stay.
  cp -r "$here/.." "$work/deploy"
  manifests=$work/secrets.yaml
  "$work/deploy/kubernetes/certificates.sh" network-functions > "$manifests" \
    2> "$work/certificates.log" || fail "certificates.sh"
  cat "$work"/deploy/kubernetes/{deployment,replicas,followers}/secrets.yaml \
    >> "$manifests"
  if unshare --mount --net sh -c \
    'mount -t tmpfs none /run && ip link add pods type bridge' 2> "$work/unshare.log"; then
    overlays=yes
  else
    without="no networks here to try overlays in: $(< "$work/unshare.log")"
  fi
fi

# A folder NAMESPACE/NAME for each Secret, as a pod mounts it.
/usr/bin/python3 - "$manifests" "$work" << 'PYTHON'
import base64, pathlib, sys, yaml
for document in yaml.safe_load_all(open(sys.argv[1])):
    if document and document["kind"] == "Secret":
        of = document["metadata"]
        folder = pathlib.Path(sys.argv[2]) / of["namespace"] / of["name"]
        folder.mkdir(parents=True)
        for name, text in document["data"].items():
            (folder / name).write_bytes(base64.b64decode(text, validate=True))
PYTHON

declare -a store=(--store=none) in_pod=()
if [[ -n "$overlays" ]]; then
  "$here/../packages.sh" etcd:etcd-server dnsmasq:dnsmasq-base curl
  kustomize=$("$here/../go_tool.sh" kustomize)
  for overlay in replicas followers; do
    "$kustomize" build "$work/deploy/kubernetes/$overlay" > "$work/$overlay.yaml"
  done
  # flags OVERLAY KIND PATTERN: of the server or etcd there, one a line, with the files of
  # the Secrets.
  flags() {
    /usr/bin/python3 - "$work" "$work/$1.yaml" "$2" << 'PYTHON' | grep -E -e "$3"
import sys, yaml
work, overlay, kind = sys.argv[1:]
for document in yaml.safe_load_all(open(overlay)):
    if document["kind"] != kind:
        continue
    pod = document["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"]["secretName"]
               for volume in pod["volumes"] if "secret" in volume}
    for container in pod.get("initContainers", []) + pod["containers"]:
        if container["name"] not in ("planb-server", "etcd"):
            continue
        for argument in container["args"]:
            for mount in container["volumeMounts"]:
                if mount["name"] in secrets:
                    argument = argument.replace(mount["mountPath"], "/".join((
                        work, document["metadata"]["namespace"], secrets[mount["name"]])))
            print(argument)
PYTHON
  }
  # await LOG LINE
  await() {
    local i
    for ((i = 0; i < 600; i++)); do
      ! grep -qs "$2" "$work/$1.log" || return 0
      kill -0 "${server_pid[$1]}" 2> /dev/null || fail "$1 ended at once"
      sleep 0.1
    done
    fail "$1: no '$2' after 60 s"
  }
  readonly MEMBERS=3 NETWORK=10.53.0 DOMAIN=planb.svc.cluster.local
  printf '%s\n' "nameserver $NETWORK.1" \
    "search $DOMAIN svc.cluster.local cluster.local" 'options ndots:5' > "$work/resolv.conf"
  # Headless Services give each pod a name and its address that name, the whole one.
  declare -a records=("--host-record=planb-lookup-headless.$DOMAIN,$NETWORK.1"
    "--host-record=planb-node.planb-node.svc.cluster.local,$NETWORK.2")
  for ((i = 0; i < MEMBERS; i++)); do
    records+=("--host-record=planb-etcd-$i.planb-etcd.$DOMAIN,$NETWORK.1$i")
  done
  # The DNS, in a network that lives as long as it.
  # shellcheck disable=SC2016
  unshare --mount --net bash -euc '
    mount --bind "$1" /etc/resolv.conf
    mkdir -p /run/netns
    mount -t tmpfs none /run/netns
    ip link set lo up
    ip link add pods type bridge
    ip address add "$2.1/24" dev pods
    ip address add "$2.2/24" dev pods
    ip link set pods up
    for ((i = 0; i < $3; i++)); do
      ip netns add "etcd-$i"
      ip link add "etcd-$i" type veth peer name eth0 netns "etcd-$i"
      ip link set "etcd-$i" master pods up
      ip -n "etcd-$i" address add "$2.1$i/24" dev eth0
      ip -n "etcd-$i" link set eth0 up
    done
    exec dnsmasq --keep-in-foreground --log-facility=- --user=root --pid-file= \
      --conf-file= --no-resolv --no-hosts "--address=/#/" "${@:4}"
  ' pods "$work/resolv.conf" "$NETWORK" "$MEMBERS" "${records[@]}" 2> "$work/pods.log" &
  server_pid[pods]=$!
  await pods started
  in_pod=(nsenter --target "${server_pid[pods]}" --mount --net)
  for ((i = 0; i < MEMBERS; i++)); do
    mapfile -t args < <(flags replicas StatefulSet . | sed "s|\$(POD_NAME)|planb-etcd-$i|
      s|^--data-dir=.*|--data-dir=$work/etcd-$i|")
    "${in_pod[@]}" nsenter --net="/run/netns/etcd-$i" etcd "${args[@]}" \
      2> "$work/etcd-$i.log" &
    server_pid[etcd-$i]=$!
  done
  for ((i = 0; i < MEMBERS; i++)); do
    await "etcd-$i" 'ready to serve client requests'
  done
  # Without roles, a client that etcd lets in may write everything. TLS 1.3 may lose the
  # reason of a refusal.
  enters() { # SECRET: with that certificate
    "${in_pod[@]}" curl --silent --show-error --fail --max-time 60 \
      --tls-max 1.2 --cacert "$work/planb/planb-etcd-tls/ca.crt" --cert "$work/$1/tls.crt" \
      --key "$work/$1/tls.key" \
      https://planb-etcd-0.planb-etcd.planb.svc:2379/version > "$work/out.log" 2>&1
  }
  enters planb/planb-etcd-tls || fail "etcd refuses its own certificate"
  others=0
  for secret in "$work"/*/*/tls.crt; do
    secret=${secret#"$work/"} secret=${secret%/tls.crt}
    [[ "$secret" != planb/planb-etcd-tls ]] || continue
    ! enters "$secret" || fail "etcd lets $secret in"
    grep -q certificate "$work/out.log" || fail "refused, but not its certificate: $secret"
    ((++others))
  done
  ((others == 5)) || fail "$others other certificates"
  mapfile -t store < <(flags replicas Deployment '^--(store|etcd_[a-z]+)=')
  ((${#store[@]} == 4)) || fail "flags of the store: ${store[*]}"
fi
port=$(free_port)
start_server planb "${in_pod[@]}" "$folder/planb_server" \
  --listen="127.0.0.1:$port${overlays:+,$NETWORK.1:50051}" \
  --metrics_address= "${store[@]}" \
  --tls_cert="$work/$server/tls.crt" --tls_key="$work/$server/tls.key" \
  --tls_client_ca="$work/$server/ca.crt" \
  --authorization_policy="$here/policy/cluster.json"

# as SECRET NAME COMMAND...: planbctl with that certificate calls that name.
as() {
  "${in_pod[@]}" "$folder/planbctl" "${@:3}" --server="127.0.0.1:$port" \
    --tls_ca="$work/$1/ca.crt" --tls_cert="$work/$1/tls.crt" --tls_key="$work/$1/tls.key" \
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
if [[ -d "$work/network-functions" ]]; then
  client=network-functions/planb-client-tls follower=planb-node/planb-follower-tls
  as "$client" localhost lookup 2001:db8::1 || fail "a client's lookup"
  refused PERMISSION_DENIED "$client" localhost announce 2001:db8::/32 8
  as "$follower" localhost table list || fail "a follower's look at the tables"
  refused PERMISSION_DENIED "$follower" localhost announce 2001:db8::/32 8
fi
if [[ -n "$overlays" ]]; then
  mapfile -t node < <(flags followers DaemonSet '^--(tls|follow)(_|=)')
  mapfile -t sidecar < <(flags followers Deployment '^--follow(_|=)')
  ((${#node[@]} == 7 && ${#sidecar[@]} == 4)) || fail "flags of followers"
  start_server node "${in_pod[@]}" "$folder/planb_server" --listen="$NETWORK.2:50051" \
    --metrics_address= "${node[@]}"
  start_server sidecar "${in_pod[@]}" "$folder/planb_server" \
    --listen="unix://$work/sidecar.sock" --metrics_address= "${sidecar[@]}"
  "$folder/planbctl" --server="unix://$work/sidecar.sock" lookup 2001:db8::1 \
    > "$work/out.log" 2>&1 || fail "a lookup of the sidecar"
  grep -q 'next hop 7' "$work/out.log" || fail "the wrong answer of the sidecar"
  stop_server sidecar
  stop_server node
fi
stop_server planb
[[ -z "$without" ]] || skip "$without"
echo "PASS: a server with $server obeys $controller, by ${#names[@]} names, and no other;" \
  "store: ${store[0]#--store=}"
