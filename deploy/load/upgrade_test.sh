#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Upgrades servers under load: no lookup may fail for callers of the client
# library.
#
#   deploy/load/upgrade_test.sh BIN [OLD]
#
# BIN holds planb_server and planbctl, OLD the planb_server to upgrade from;
# without it, from a copy of the same. Three ways, each there and back:
#
#   in place   one Unix socket, one SQLite store: the old server drains and
#              ends, then the new one starts
#   side by side   the new server is up on a socket of its own before a
#              symbolic link, which clients know, is turned to it
#   rolling    two servers behind two TCP addresses, one after the other
#
# `planbctl soak` looks up all the while, checks every answer, and says the
# longest wait; a wait is no failure, for the library bridges it.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 2
bin=$(realpath "$1")
work=$(mktemp -d /tmp/planb_upgrade.XXXXXX)
trap cleanup EXIT

mkdir "$work/old" "$work/new"
cp "$(realpath "${2:-$bin}")/planb_server" "$work/old/"
cp "$bin/planb_server" "$work/new/"
"$bin/planbctl" generate --routes=20000 "$work/table"

# soak_on TARGET: in the background, until soak_off.
soak_on() {
  # Nothing here takes nearly as long as --timeout, on any machine.
  "$bin/planbctl" soak --json --server="$1" --seconds=3600 --timeout=60s \
    --streams=2 --batch=64 --rate=64000 "$work/table" \
    > "$work/soak.json" 2> "$work/soak.log" &
  soak_pid=$!
}

# soak_off NAME UPGRADES
soak_off() {
  local code=0 report
  kill -TERM "$soak_pid" 2> /dev/null || true
  wait "$soak_pid" || code=$?
  soak_pid=
  report=$(cat "$work/soak.json")
  ((code == 0)) || fail "$1: exit code $code of planbctl soak: $report"
  (($(field reconnects <<< "$report") >= $2)) ||
    fail "$1: too few reconnects to have been there: $report"
  printf '%-12s  %6d batches, %d reconnects, longest wait %4.0f ms\n' "$1" \
    "$(field batches <<< "$report")" "$(field reconnects <<< "$report")" \
    "$(milliseconds "$(field latency_us_max <<< "$report")")"
}
milliseconds() {
  awk -v us="$1" 'BEGIN { print us / 1000 }'
}

in_place() {
  local target=unix://$work/planb.sock version
  local flags=(--listen="$target" --store="$work/planb.db"
    --metrics_address=127.0.0.1:0)
  start_server server "$work/old/planb_server" "${flags[@]}"
  "$bin/planbctl" --server="$target" load "$work/table" > /dev/null
  soak_on "$target"
  await_streams 2 server
  for version in new old new; do
    stop_server server
    start_server server "$work/$version/planb_server" "${flags[@]}"
    await_streams 2 server
  done
  soak_off "in place" 6
  stop_server server
}

# Two servers at once cannot share a store, so the table comes as a snapshot.
side_by_side() {
  local target=unix://$work/planb.sock from=old to
  turn_to() {
    ln -s "$1.sock" "$work/next" && mv -T "$work/next" "$work/planb.sock"
  }
  start_side() {
    start_server "$1" "$work/$1/planb_server" --store=none \
      --listen="unix://$work/$1.sock" --routes="$2" \
      --metrics_address=127.0.0.1:0
  }
  start_side old "$work/table"
  turn_to old
  soak_on "$target"
  await_streams 2 old
  for to in new old; do
    "$bin/planbctl" --server="$target" snapshot export "$work/snapshot" \
      > /dev/null
    start_side "$to" "$work/snapshot"
    turn_to "$to"
    stop_server "$from"
    await_streams 2 "$to"
    from=$to
  done
  soak_off "side by side" 4
  stop_server "$from"
}

rolling() {
  local name version ports=()
  local flags=(--store=none --routes="$work/table"
    --metrics_address=127.0.0.1:0)
  for name in one two; do
    ports+=("$(free_port)")
    start_server "$name" "$work/old/planb_server" "${flags[@]}" \
      --listen="127.0.0.1:${ports[-1]}"
  done
  soak_on "ipv4:127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}"
  await_streams 2 one two
  for version in new old; do
    stop_server one
    await_streams 2 two
    start_server one "$work/$version/planb_server" "${flags[@]}" \
      --listen="127.0.0.1:${ports[0]}"
    stop_server two
    await_streams 2 one
    start_server two "$work/$version/planb_server" "${flags[@]}" \
      --listen="127.0.0.1:${ports[1]}"
  done
  # Where the two streams were at first is chance.
  soak_off "rolling" 6
  stop_server one
  stop_server two
}

# The judge must be able to say no: here no server comes back.
no_successor() {
  local code=0
  start_server server "$work/new/planb_server" --store=none \
    --listen="unix://$work/last.sock" --routes="$work/table" \
    --metrics_address=127.0.0.1:0
  "$bin/planbctl" soak --json --server="unix://$work/last.sock" --seconds=60 \
    --timeout=100ms --batch=64 "$work/table" > "$work/soak.json" &
  soak_pid=$!
  await_streams 1 server
  stop_server server
  sleep 0.5
  kill -TERM "$soak_pid"
  wait "$soak_pid" || code=$?
  soak_pid=
  if ((code != 1)) || ! grep -q DEADLINE_EXCEEDED "$work/soak.json"; then
    fail "lost lookups passed for answered ones: $(cat "$work/soak.json")"
  fi
  echo "right control: without a successor, lookups fail"
}

in_place
side_by_side
rolling
no_successor
echo "PASS: upgrades under load, no lookup failed"
