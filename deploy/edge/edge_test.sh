#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the edge with real processes: planb_server on a Unix socket, HAProxy with
# the shipped configuration before it, planbctl as honest clients, and every
# attack of the hostile suite (server/testing/hostile_attacker) through the edge.
#
#   deploy/edge/edge_test.sh BIN [ATTACK...]
#
# BIN holds planb_server, planbctl and hostile_attacker. Without ATTACK all run,
# each from loopback addresses of its own: an honest client is another source.
# PLANB_EDGE_SECONDS is how long each lasts at least. PLANB_SERVER_FLAGS go to the
# server. As root on Debian it installs HAProxy and curl if they are missing;
# exit code 77 (skipped) without them.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 99
bin=$(realpath "$1")
attacks=("${@:2}")
seconds=${PLANB_EDGE_SECONDS:-0.3}
# What the attacks may add, in MiB.
readonly SERVER_MARGIN=128 EDGE_MARGIN=64

PATH=$PATH:/usr/sbin
"$here/../packages.sh" haproxy curl
for program in planb_server planbctl hostile_attacker; do
  [[ -x "$bin/$program" ]] || skip "no $program in $bin"
done

work=$(mktemp -d /tmp/planb_edge.XXXXXX)
declare -a children=()
finish() {
  local code=$?
  if ((${#children[@]})); then
    kill -KILL "${children[@]}" 2> /dev/null || true
    wait "${children[@]}" 2> /dev/null || true
  fi
  rm -rf "$work"
  return "$code"
}
trap finish EXIT

# await WHAT COMMAND...: until the command succeeds.
await() {
  local what=$1 deadline=$((SECONDS + 60))
  shift
  until "$@"; do
    ((SECONDS < deadline)) || fail "$what"
    sleep 0.05
  done
}
# peak PID: the most memory it has had, in MiB; nothing if it is gone.
peak() { awk '/^VmHWM/ {print int($2 / 1024)}' "/proc/$1/status" 2> /dev/null; }

# The edge runs beside the server and the feed as they are shipped.
twice=$(sed -n 's/.*\(metrics_address: "\|METRICS-\)\([^"}]*\).*/\2/p' \
  "$here/haproxy.cfg" "$here"/../systemd/{planb,feed}.yaml | tee "$work/pages" | sort | uniq -d)
[[ $(wc -l < "$work/pages") == 3 && -z $twice ]] ||
  fail "not an address for Prometheus each: $(xargs < "$work/pages")"

# Five ports that are free now, and that no connection gets by chance.
declare -a ports=()
while ((${#ports[@]} < 5)); do
  port=$(free_port)
  [[ " ${ports[*]} " == *" $port "* ]] || ports+=("$port")
done
read -r plain tls mutual metrics mutual_metrics <<< "${ports[*]}"
readonly plain tls mutual metrics mutual_metrics

# authority NAME; certificate NAME AUTHORITY: throwaway ones, for localhost.
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=$1" -days 2 -keyout "$work/$1.key" -out "$work/$1.crt"
}
certificate() {
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=$1" -keyout "$work/$1.key" -out "$work/$1.csr"
  openssl x509 -req -in "$work/$1.csr" -CA "$work/$2.crt" \
    -CAkey "$work/$2.key" -days 2 -out "$work/$1.crt" \
    -extfile <(echo 'subjectAltName = DNS:localhost')
}
{
  authority authority
  authority stranger
  certificate edge authority
  certificate controller authority
  certificate reader authority
  certificate forged stranger
} 2> "$work/openssl.log" || fail "openssl"
cat "$work/edge.crt" "$work/edge.key" > "$work/edge.pem"
echo controller > "$work/controllers"

# An idle call ends soon here; streams that are used have to outlive that.
export PLANB_EDGE_IDLE_CALL=5s PLANB_EDGE_SERVER=$work/planb.sock
export PLANB_EDGE_CERT=$work/edge.pem
# start_edge NAME METRICS_PORT VARIABLE=VALUE...
start_edge() {
  local name=$1 port=$2
  shift 2
  env PLANB_EDGE_METRICS="127.0.0.1:$port" "$@" \
    haproxy -db -f "$here/haproxy.cfg" > "$work/$name.log" 2>&1 &
  edge=$!
  children+=("$edge")
  await "no $name" curl -sf -o "$work/scrape" "http://127.0.0.1:$port/metrics"
}

"$bin/planbctl" generate --routes=20000 "$work/routes.txt"
# shellcheck disable=SC2086 # words are what is wanted
"$bin/planb_server" --listen="unix://$work/planb.sock" --store=none \
  --metrics_address= --routes="$work/routes.txt" ${PLANB_SERVER_FLAGS:-} \
  2> "$work/server.log" &
server=$!
children+=("$server")
await "no server" grep -q ' serving$' "$work/server.log"
start_edge mutual "$mutual_metrics" PLANB_EDGE_TLS="127.0.0.1:$mutual" \
  PLANB_EDGE_CLIENT_CA="$work/authority.crt" \
  PLANB_EDGE_CONTROLLERS="$work/controllers"
mutual_edge=$edge
start_edge edge "$metrics" PLANB_EDGE_PLAINTEXT="127.0.0.1:$plain" \
  PLANB_EDGE_TLS="127.0.0.1:$tls"

direct() { "$bin/planbctl" --server="unix://$work/planb.sock" "$@"; }
ctl() { "$bin/planbctl" --server="127.0.0.1:$plain" "$@"; }
ctl_tls() {
  "$bin/planbctl" --server="localhost:$tls" --tls_ca="$work/authority.crt" "$@"
}
# ctl_mutual NAME ARGUMENTS...: with that certificate.
ctl_mutual() {
  "$bin/planbctl" --server="localhost:$mutual" --tls_ca="$work/authority.crt" \
    --tls_cert="$work/$1.crt" --tls_key="$work/$1.key" "${@:2}"
}
# counter NAME: of the frontend, as Prometheus gets it.
counter() {
  curl -sf "http://127.0.0.1:$metrics/metrics" |
    sed -n "s/^haproxy_$1{proxy=\"edge\"} //p"
}
# Calls that the server has got.
passed() {
  curl -sf "http://127.0.0.1:$metrics/metrics" |
    awk '/^haproxy_backend_http_requests_total{/ { sum += $2 }
      END { print sum + 0 }'
}
# refused STATUS COMMAND...: it fails, and says so.
refused() {
  local status=$1
  shift
  if "$@" > "$work/answer" 2>&1; then
    fail "not refused: $*"
  fi
  grep -q "$status" "$work/answer" ||
    fail "$*: not $status but $(cat "$work/answer")"
}

for client in ctl ctl_tls 'ctl_mutual reader'; do
  # shellcheck disable=SC2086 # words are what is wanted
  $client verify --samples=20000 "$work/routes.txt" > "$work/answer" 2>&1 ||
    fail "$client verify: $(cat "$work/answer")"
done
mapfile -t addresses < <(sed -n '100,107s|/.*||p' "$work/routes.txt")
direct lookup "${addresses[@]}" > "$work/expected"
[[ "$(grep -c 'next hop' "$work/expected")" == 8 ]] || fail "no routes"
# answers COMMAND...: it looks up the addresses as the server alone does.
answers() {
  "$@" --timeout=60s lookup "${addresses[@]}" 2>&1 | diff "$work/expected" - ||
    fail "$* lookup"
}
for client in ctl ctl_tls 'ctl_mutual reader'; do
  # shellcheck disable=SC2086 # words are what is wanted
  $client health > /dev/null || fail "$client health"
done
echo "edge: streams, calls and health, with and without TLS"

refused PERMISSION_DENIED ctl announce 2001:db8::/32 7
refused PERMISSION_DENIED ctl_tls status
refused PERMISSION_DENIED ctl_mutual reader announce 2001:db8::/32 7
ctl_mutual controller table create blue > /dev/null || fail "the controller"
direct table delete blue > /dev/null || fail "the controller made no table"
refused '' ctl_mutual forged health
# gives EXPECTED CURL_ARGUMENTS... PATH: the status of HTTP, or that of gRPC.
gives() {
  local expected=$1 path=${*: -1} got
  got=$(curl -s --http2-prior-knowledge -o /dev/null -D - "${@:2:$#-2}" \
    "http://127.0.0.1:$plain$path" | tr -d '\r' |
    sed -n 's|^HTTP/2 \([0-9]*\).*|\1|p; s/^grpc-status: /grpc /p' | tail -n 1)
  [[ "$got" == "$expected" ]] || fail "${*:2}: $got, not $expected"
}
grpc=(-X POST -H 'content-type: application/grpc' -H 'te: trailers')
readonly CHECK=/grpc.health.v1.Health/Check
printf '\0\0\0\0\0' > "$work/empty"
gives 'grpc 0' "${grpc[@]}" --data-binary "@$work/empty" $CHECK
gives 405 -H 'content-type: application/grpc' $CHECK
gives 415 -X POST -H 'content-type: application/json' $CHECK
gives 415 -X POST -H 'content-type: application/grpc-web' $CHECK
gives 'grpc 12' "${grpc[@]}" -H 'grpc-encoding: gzip' $CHECK
gives 'grpc 12' "${grpc[@]}" /grpc.health.v1.Health/Watch
gives 'grpc 12' "${grpc[@]}" /planb.v1.RouteLookup/
gives 'grpc 12' "${grpc[@]}" /planb.v1.RouteLookup/BatchLookup/
gives 'grpc 7' "${grpc[@]}" /planb.v1.RouteTable/GetTable
for version in v1 v1alpha; do
  gives 'grpc 12' "${grpc[@]}" \
    "/grpc.reflection.$version.ServerReflection/ServerReflectionInfo"
done
if curl -s --http1.1 "http://127.0.0.1:$plain/" > "$work/answer"; then
  fail "HTTP/1.1 gets $(cat "$work/answer")"
fi
echo "edge: refuses RouteTable, reflection, and what is no call"
kill "$mutual_edge"
wait "$mutual_edge" 2> /dev/null || true

# honest NAME SERVER: one stream for the whole time, each answer checked, few
# enough of them to leave the cores to the attackers. A stream that ends, or that
# waits for too long, ends it.
honest() {
  "$bin/planbctl" --server="$2" --timeout=60s bench --seconds=1000 --json \
    --routes="$work/routes.txt" --trace=match --check --batch=64 \
    --rate=3200 > "$work/$1.json" 2> "$work/$1.log" &
  children+=($!)
  # A line of progress: it has had answers.
  await "the honest client $1 does not begin" test -s "$work/$1.log"
}
honest through "127.0.0.1:$plain"
through=${children[-1]}
honest beside "unix://$work/planb.sock"
beside=${children[-1]}
if ((${#attacks[@]} == 0)); then
  mapfile -t attacks < <(
    grep -hoE '^ +\{"[A-Za-z]+", "' "$here"/../../server/testing/hostile_*.cc |
      grep -oE '[A-Z][A-Za-z]+'
  )
  ((${#attacks[@]} >= 36)) || fail "only ${#attacks[@]} attacks are found"
fi
# Prometheus' counter that has to grow under some of them.
declare -A stopped_by=(
  [RapidReset]=frontend_requests_denied_total
  [RapidResetOfChanges]=frontend_requests_denied_total
  [WrongPaths]=frontend_requests_denied_total
  [ConnectAndClose]=frontend_denied_connections_total
  [HalfOpen]=frontend_denied_connections_total
  [Slowloris]=frontend_denied_connections_total
)
has_grown() { (($(counter "$1") > $2)); }
idle=$(peak "$server") edge_idle=$(peak "$edge")

printf '%-20s %10s %8s %8s %8s %11s %11s %9s\n' attack steps calls refused passed \
  'turned away' 'server MiB' 'edge MiB'
number=0
done_attacks=()
for attack in "${attacks[@]}"; do
  number=$((number + 1))
  calls=$(counter frontend_http_requests_total)
  refused=$(counter frontend_requests_denied_total)
  at_server=$(passed)
  turned_away=$(counter frontend_denied_connections_total)
  before=$refused
  [[ "${stopped_by[$attack]:-}" != *connections* ]] || before=$turned_away
  attackers=()
  for source in 1 2; do
    nice -n 10 "$bin/hostile_attacker" \
      "127.9.$number.$source@127.0.0.1:$plain" "$attack" "$source" 0 \
      > "$work/$attack.$source" 2> "$work/attacker.$source.log" &
    attackers+=($!)
    children+=($!)
  done
  for source in 1 2; do
    await "$attack does not begin" grep -qs begun "$work/$attack.$source"
  done
  sleep "$seconds"
  # Newcomers, with a connection each.
  answers ctl
  answers direct
  if [[ -n "${stopped_by[$attack]:-}" ]]; then
    await "the edge does not stop $attack" has_grown "${stopped_by[$attack]}" \
      "$before"
  fi
  kill "${attackers[@]}"
  wait "${attackers[@]}" || true
  for pid in "$server" "$edge" "$through" "$beside"; do
    kill -0 "$pid" 2> /dev/null ||
      fail "$attack: the server, the edge, or an honest client is gone"
  done
  printf '%-20s %10d %8d %8d %8d %11d %11d %9d\n' "$attack" \
    "$(cat "$work/$attack".[12] | awk '/^[0-9]/ { sum += $1 }
      END { print sum + 0 }')" \
    $(($(counter frontend_http_requests_total) - calls)) \
    $(($(counter frontend_requests_denied_total) - refused)) \
    $(($(passed) - at_server)) \
    $(($(counter frontend_denied_connections_total) - turned_away)) \
    "$(peak "$server")" "$(peak "$edge")"
  (($(peak "$server") < idle + SERVER_MARGIN)) ||
    fail "$attack: the server's memory went from $idle to $(peak "$server") MiB"
  (($(peak "$edge") < edge_idle + EDGE_MARGIN)) ||
    fail "$attack: HAProxy's memory went from $edge_idle to $(peak "$edge") MiB"
  done_attacks+=("$attack")
done
# An error in an expression ends a loop and nothing more.
[[ "${done_attacks[*]}" == "${attacks[*]}" ]] ||
  fail "only so many attacks were tried: ${#done_attacks[@]}"
echo "edge: memory was $idle and $edge_idle MiB before"

for client in through:$through beside:$beside; do
  kill "${client#*:}"
  wait "${client#*:}" || fail "the honest client ${client%:*}: exit code $?"
  python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["mismatches"] == 0 and report["misses"] == 0, report
assert report["unanswered_batches"] == 0, report
assert report["batches"] > 0, report
print("edge: the honest client", sys.argv[2] + ":", report["batches"],
      "batches in %.0f s," % report["seconds"], "all right; the longest took",
      "%.0f ms" % (report["latency_us_max"] / 1000))
' "$work/${client%:*}.json" "${client%:*}" || fail "the honest client"
done
kill "$server"
wait "$server" || fail "exit code $? of the server"
echo "PASS: the edge"
