#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Smoke test of a server by ghz, an independent client that learns the contract
# from the server's reflection alone.
#
#   deploy/load/ghz/smoke.sh SERVER_BINARY [GHZ]
#
# Starts the server on a loopback port with a generated table, announces a few
# host routes, and runs unary Lookup and BatchLookup at a low fixed rate. Fails
# unless every call is OK and every answer is the announced next hop. Without
# GHZ, the pinned one is installed under .cache.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../../lib.sh"
arguments $# 1 2
server_binary=$1
ghz=${2:-$("$here/../../go_tool.sh" ghz)}

work=$(mktemp -d)
trap cleanup EXIT
port=$(free_port)
start_server server "$server_binary" --listen="127.0.0.1:$port" \
  --metrics_address= --generate=100000

# Runs the configuration $1.json, with further options of ghz. Its exit code
# only speaks of its own work; check.py judges.
run() {
  local name=$1
  shift
  "$ghz" --config="$here/$name.json" --format=json --output="$work/report" \
    "$@" "127.0.0.1:$port" > "$work/out" 2>&1 ||
    fail "ghz with $name.json: $(tail -n 3 "$work/out")"
}
check_answers() {
  run "$@" --debug="$work/log"
  python3 "$here/check.py" "$work/report" "$here/$1.json" \
    "$here/update_routes.json" "$work/log" || fail "$1.json"
  # The judge must be able to say no: one next hop other than announced.
  sed 's/: 4242$/: 4243/' "$here/update_routes.json" > "$work/altered"
  if python3 "$here/check.py" "$work/report" "$here/$1.json" \
    "$work/altered" "$work/log" > "$work/out"; then
    fail "$1.json: a wrong next hop passed for right"
  fi
}
check_load() {
  run "$1"
  python3 "$here/check.py" "$work/report" || fail "$1.json"
}

check_load update_routes
# ghz logs at most 100 replies a second, so these stay below that.
check_answers lookup --total=80 --rps=80
check_answers batch_lookup --total=2 --rps=2
check_load lookup
check_load batch_lookup

run malformed_lookup
if python3 "$here/check.py" "$work/report" > "$work/out"; then
  fail "malformed addresses passed for right ones"
fi
grep -q "statuses {'InvalidArgument': 20}" "$work/out" ||
  fail "malformed addresses: $(cat "$work/out")"
echo "right control: 20 malformed calls, 20 times InvalidArgument"

stop_server server
echo "PASS: ghz smoke test"
