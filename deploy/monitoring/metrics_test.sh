#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Holds a real scrape to Prometheus' own rules: `promtool check metrics`, with
# no error and no warning, before and after traffic of every kind.
#
#   deploy/monitoring/metrics_test.sh BIN
#
# BIN is a folder with planb_server and planbctl. Exit code 77 (skipped) where
# prometheus.sh has no promtool.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"

arguments $# 1
bin=$(realpath "$1")
work=$(mktemp -d /tmp/planb_metrics.XXXXXX)
trap cleanup EXIT

find_prometheus
promtool=$programs/promtool

# scrape FILE: the body of /metrics.
scrape() {
  local line
  exec 3<> "/dev/tcp/127.0.0.1/$port"
  printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
  IFS= read -r line <&3
  [[ "$line" == *" 200 "* ]] || fail "/metrics answers $line"
  while IFS= read -r line <&3 && [[ "$line" != $'\r' ]]; do :; done
  cat <&3 > "$1"
  exec 3>&-
}

# check FILE: promtool has nothing to say about it.
check() {
  local said status=0
  said=$("$promtool" check metrics < "$1" 2>&1) || status=$?
  if ((status != 0)) || [[ -n "$said" ]]; then
    fail "promtool (exit code $status) about $(basename "$1"): $said"
  fi
  echo "$(basename "$1"): $(grep -c '^# TYPE ' "$1") metrics," \
    "$(grep -cv '^#' "$1") samples, clean"
}

# value FILE SERIES: its value as it is written.
value() {
  awk -v series="$2" '$1 == series { print $2 }' "$1"
}

start_server server "$bin/planb_server" --listen="unix://$work/planb.sock" \
  --generate=1000 --metrics_address=127.0.0.1:0 --store="$work/planb.db"
port=$(metrics_port server)
[[ -n "$port" ]] || fail "no port of /metrics in the server's log"

scrape "$work/idle"
check "$work/idle"

export PLANB_SERVER=unix://$work/planb.sock
ctl() { "$bin/planbctl" --timeout=60s "$@" > "$work/out" 2>&1; }
ctl announce 2001:db8::/32 7 || fail "announce: $(cat "$work/out")"
ctl withdraw 2001:db8::/32 || fail "withdraw: $(cat "$work/out")"
! ctl announce 2001:db8::/32 4294967295 || fail "a reserved next hop was taken"
ctl table create blue || fail "table create: $(cat "$work/out")"
ctl lookup ::1 2001:db8::1 || true # no route: its exit code says so
ctl bench --seconds=1 --batch=256 || fail "bench: $(cat "$work/out")"

scrape "$work/busy"
check "$work/busy"
for series in planb_lookups_total planb_lookup_batch_size_count \
  'planb_lookup_bytes_total{direction="received"}' \
  'planb_update_operations_total{op="upsert",result="changed"}' \
  'planb_update_operations_total{op="delete",result="changed"}' \
  planb_store_commit_seconds_count planb_visibility_seconds_count; do
  before=$(value "$work/idle" "$series")
  after=$(value "$work/busy" "$series")
  [[ -n "$before" && -n "$after" && "$before" != "$after" ]] ||
    fail "$series went from '$before' to '$after'"
done
[[ "$(value "$work/busy" planb_tables)" == 2 ]] || fail "not two tables"
# What is there from the start stays; tables come and go.
names() { grep -v '^#' "$1" | grep -v 'table="blue"' | sed 's/ [^ ]*$//' | sort; }
diff <(names "$work/idle") <(names "$work/busy") ||
  fail "series came or went with traffic"

stop_server server
echo PASS
