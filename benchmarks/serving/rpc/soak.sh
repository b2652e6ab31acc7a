#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# 24 client processes with batches of all sizes, in full and in upper halves,
# while the table changes: every answer must be right, and memory flat.
#
#   benchmarks/serving/rpc/soak.sh SERVER_BINARY PLANBCTL [SECONDS]
#
# Both may be built with --config=asan: what the sanitizer finds ends the server
# and so the soak. The changes are to prefixes that no client looks up; each is a
# rebuild and a new generation all the same. Flat: the server's resident memory
# at the end is at most 10% above that after a third of the time.
here=$(dirname "$0")
# shellcheck source=deploy/lib.sh
. "$here/../../../deploy/lib.sh"
arguments $# 2 3
server_binary=$1 planbctl=$2 seconds=${3:-600}
routes=100000
work=$(mktemp -d /tmp/planb_soak.XXXXXX)
export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=16}
trap 'kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null; rm -rf "$work"' EXIT

socket=unix://$work/s
start_server server "$server_binary" "--listen=$socket" --metrics_address= \
  "--generate=$routes"
server=${server_pid[server]}

resident() { awk '/^VmRSS/{print $2}' "/proc/$server/status"; }

sizes=(1 2 7 32 100 256 1000 1024 4096 5000 16384 65536)
clients=()
for ((i = 0; i < 24; i++)); do
  form=$( ((i < 12)) && echo full || echo upper)
  "$planbctl" "--server=$socket" bench --check "--synthetic=$routes" \
    --trace=match "--form=$form" "--batch=${sizes[i % 12]}" \
    "--depth=$((1 + i % 5))" "--seconds=$seconds" "--seed=1" --quiet --json \
    >"$work/client$i" 2>&1 &
  clients+=($!)
done

changes=0 third=
end=$((SECONDS + seconds))
while ((SECONDS < end)); do
  kill -0 "$server" || break
  prefix=$(printf '2001:db8:%x::/48' $((changes % 65536)))
  "$planbctl" "--server=$socket" announce "$prefix" $((changes + 1)) \
    >/dev/null 2>&1 && changes=$((changes + 1))
  if [[ -z $third ]] && ((SECONDS > end - seconds * 2 / 3)); then
    third=$(resident)
  fi
done

failed=0
for ((i = 0; i < 24; i++)); do
  wait "${clients[i]}" || {
    failed=$((failed + 1))
    echo "client $i: $(tail -n 2 "$work/client$i")"
  }
done
last=$(resident)
lookups=$(cat "$work"/client* | sed -n 's/.*"lookups":\([0-9.e+]*\).*/\1/p' |
  awk '{ sum += $1 } END { printf "%.0f", sum }')
kill -TERM "$server"
status=0
wait "$server" || status=$?
echo "$lookups lookups right, $changes changes, $failed of 24 clients failed;" \
  "resident $third KiB after a third, $last KiB at the end; server exit $status"
if grep -E 'ERROR: AddressSanitizer|runtime error' "$work/server.log"; then
  exit 1
fi
((failed == 0 && status == 0 && changes > 0 && last <= third + third / 10))
