# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash disable=SC2154
# A service with TLS and a policy: pods are ready once they are fed, an upgrade
# waits for that, callers are told apart, certificates are renewed. Sourced by
# node_test.sh.

space=planb
certificates=$work/certificates.d
mkdir "$certificates"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=authority \
  -keyout "$certificates/ca.key" -out "$certificates/ca.crt" 2> /dev/null
# certificate NAME ALTERNATIVE_NAME DAYS
certificate() {
  openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" \
    -keyout "$certificates/$1.key" -out "$certificates/$1.csr" 2> /dev/null
  openssl x509 -req -in "$certificates/$1.csr" -days "$3" -CAcreateserial \
    -CA "$certificates/ca.crt" -CAkey "$certificates/ca.key" \
    -extfile <(echo "subjectAltName=$2") -out "$certificates/$1.crt" \
    2> /dev/null
}
certificate server DNS:planb-lookup.planb.svc 10
certificate function URI:spiffe://cluster.local/ns/network-functions/sa/any 10
certificate controller \
  URI:spiffe://cluster.local/ns/planb-system/sa/planb-controller 10
secret() {
  kubectl -n $space create secret generic planb-tls --dry-run=client -o yaml \
    --from-file=tls.crt="$certificates/server.crt" \
    --from-file=tls.key="$certificates/server.key" \
    --from-file=ca.crt="$certificates/ca.crt" |
    kubectl apply -f - > /dev/null 2>&1
}

# The image's own client, on the node.
mkdir "$work/image" "$work/client"
tar --extract --file "$archive" --directory "$work/image"
find "$work/image" -name '*.tar' \
  -exec tar --extract --file {} --directory "$work/client" \;
cp -r "$certificates" "$work/client/certificates"
chmod -R a+rX "$work/client/certificates"
# as CALLER POD ARGUMENT...: its exit code.
as() {
  local caller=$1 address code=0
  address=$(kubectl -n $space get pod "$2" -o 'jsonpath={.status.podIP}')
  shift 2
  "$here/../run_in_chroot.py" "$work/client" 65532 65532 /usr/bin/planbctl \
    --server="$address:50051" --tls_ca=/certificates/ca.crt \
    --tls_cert="/certificates/$caller.crt" \
    --tls_key="/certificates/$caller.key" \
    --tls_server_name=planb-lookup.planb.svc "$@" > "$work/as.out" 2>&1 ||
    code=$?
  echo "$code"
}
feed() { # POD
  local code
  await "feeding $1" bash -c "[[ \$(as controller $1 health) =~ ^[01]\$ ]]"
  code=$(as controller "$1" announce 2001:db8::/32 7)
  [[ "$code" == 0 ]] || fail "feeding $1 ($code): $(cat "$work/as.out")"
}
started_pods() { # COUNT: of the service's pods, so many have a started server.
  local count
  count=$(kubectl -n $space get pods -l app.kubernetes.io/name=planb-lookup \
    -o 'jsonpath={range .items[*]}{.status.containerStatuses[0].started}{"\n"}{end}' |
    grep -c true)
  [[ "$count" == "$1" ]]
}
# addresses SERVICE READY: how many a client of the Service finds.
addresses() {
  kubectl -n $space get endpointslices -l "kubernetes.io/service-name=$1" \
    -o 'jsonpath={range .items[*].endpoints[*]}{.conditions.ready}{"\n"}{end}' |
    grep -c true || true
}
export -f as
export space here work
pods() {
  kubectl -n $space get pods -l app.kubernetes.io/name=planb-lookup \
    --field-selector=status.phase=Running \
    -o 'jsonpath={.items[*].metadata.name}'
}
has_addresses() { # SERVICE COUNT
  [[ "$(addresses "$1")" == "$2" ]]
}

kubectl create namespace $space > /dev/null
secret
apply deployment
# The autoscaler's least: it needs no metrics for that.
await "the service's two pods" started_pods 2
has_addresses planb-lookup-headless 0 || fail "ready without routes"
await "where to feed" has_addresses planb-lookup-feed 2
for pod in $(pods); do
  feed "$pod"
done
await "readiness" has_addresses planb-lookup-headless 2
say "deployment: found by callers once it was fed, by the Service for that"

one=$(pod $space planb-lookup)
code=$(as function "$one" lookup 2001:db8::1)
{ [[ "$code" == 0 ]] && grep -q 'next hop 7' "$work/as.out"; } ||
  fail "a function's lookup ($code): $(cat "$work/as.out")"
code=$(as function "$one" announce 2001:db8::/32 8)
{ [[ "$code" == 3 ]] && grep -q PERMISSION_DENIED "$work/as.out"; } ||
  fail "a function's change ($code): $(cat "$work/as.out")"
code=$(as nobody "$one" lookup 2001:db8::1)
[[ "$code" != 0 ]] || fail "a caller without a certificate was served"
say "deployment: functions look up and change nothing, strangers get nothing"

kubectl -n $space set image deployment/planb-lookup \
  planb-server=localhost/planb-lookup:next > /dev/null
await "the new pod" started_pods 3
sleep 5 # Nothing is to happen: it has no routes, so the old ones stay.
has_addresses planb-lookup-headless 2 ||
  fail "an old pod went before a new one was fed"
feed_new_ones() {
  local each
  for each in $(pods); do
    # Some may be on their way in or out, and refuse.
    [[ "$(server $space "$each" ready 2> /dev/null)" == True ]] ||
      as controller "$each" announce 2001:db8::/32 7
  done
  kubectl -n $space rollout status deployment/planb-lookup --timeout=2s
}
await "the upgrade" feed_new_ones
old_ones_gone() {
  [[ "$(pods | wc -w)" == 2 ]]
}
await "the old pods' end" old_ones_gone
two=$(pod $space planb-lookup)
[[ "$(server $space "$two" image)" == *:next ]] || fail "$two is an old one"
code=$(as function "$two" lookup 2001:db8::1)
[[ "$code" == 0 ]] || fail "after the upgrade: $(cat "$work/as.out")"
say "deployment: upgraded; old pods stayed until new ones were fed"

expiry() {
  local address
  address=$(kubectl -n $space get pod "$two" -o 'jsonpath={.status.podIP}')
  curl --fail --silent --max-time 5 "http://$address:9464/metrics" | sed -n \
    's/^planb_tls_certificate_expiry_timestamp_seconds{kind="server"} //p'
}
before=$(expiry)
[[ -n "$before" ]] || fail "no metric of the certificate's expiry"
certificate server DNS:planb-lookup.planb.svc 20
secret
renewed() {
  local now
  now=$(expiry) && [[ -n "$now" && "$now" != "$before" ]]
}
await "the new certificate" renewed
is_ready $space "$two" 0 || fail "renewing the certificate restarted the server"
code=$(as function "$two" lookup 2001:db8::1)
[[ "$code" == 0 ]] || fail "with the new certificate: $(cat "$work/as.out")"
say "deployment: took a renewed certificate from the Secret, without a restart"
