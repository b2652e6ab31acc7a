#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Load by ghz over the sidecar's Unix socket, at a fixed rate.
#
#   deploy/load/run.sh BIN OUTPUT_DIR [SECONDS]
#
# BIN holds planb_server, which is started as a sidecar is: a Unix socket, and
# nothing on TCP. If PLANB_SERVER is set, that server is asked instead, such as
# unix:///run/planb/planb.sock or 127.0.0.1:50051, and BIN is not looked at.
#
# Two runs of SECONDS (60) each: 500 Lookup calls a second; 20 BatchLookup
# streams a second, of 20 batches of 256 addresses. Leaves NAME.json of each, and
# summary.md. Exit code 1 unless every call ended with OK. PLANB_GHZ: a ghz of
# one's own instead of the pinned one; job.yaml runs the same in Kubernetes.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
readonly GHZ_FILES=$here/ghz
arguments $# 2 3
out=$2
seconds=${3:-60}
work=$(mktemp -d /tmp/planb_load.XXXXXX)
trap cleanup EXIT
mkdir -p "$out"

target=${PLANB_SERVER:-}
if [[ -z "$target" ]]; then
  target=unix://$work/planb.sock
  start_server server "$1/planb_server" --listen="$target" --store=none \
    --metrics_address=127.0.0.1:0 --generate=100000
fi
ghz=${PLANB_GHZ:-$("$here/../go_tool.sh" ghz)}

# Of the server `server`; of another, perhaps on another machine, 0.
resident_kb() {
  [[ -n "${server_pid[server]:-}" ]] || {
    echo 0
    return
  }
  awk '/^VmRSS/ { print $2 }' "/proc/${server_pid[server]}/status"
}

# run_ghz NAME RATE MESSAGES...: leaves NAME.json in `out`.
run_ghz() {
  local name=$1 before
  python3 -B "$GHZ_FILES/messages.py" "${@:3}" > "$work/$name.bin"
  before=$(resident_kb)
  # Its exit code only speaks of its own work; report.py judges.
  "$ghz" --config="$GHZ_FILES/$name.json" --binary-file="$work/$name.bin" \
    --format=json --output="$work/report" --rps="$2" --duration="${seconds}s" \
    "$target" > "$work/ghz.log" 2>&1 ||
    fail "ghz with $name.json: $(tail -n 3 "$work/ghz.log")"
  python3 -B "$GHZ_FILES/report.py" keep "$work/report" "$GHZ_FILES/$name.json" \
    "$work/$name.bin" "$before" "$(resident_kb)" "$out/$name"
  echo "$name: done"
}

run_ghz unary 500 lookup
run_ghz soak 20 batch 256
if [[ -n "${server_pid[server]:-}" ]]; then
  stop_server server
fi
python3 -B "$GHZ_FILES/report.py" summary "$out" unary soak
