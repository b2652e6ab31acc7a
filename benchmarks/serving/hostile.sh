#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# What an honest client keeps of its throughput under each attack.
#
# Usage: benchmarks/serving/hostile.sh [RATE [ATTACK...]]
#
# One attacker (server/testing/hostile_attacker.cc) at RATE steps a second (0, the
# default: as many as it can), on core 0 at the lowest priority, beside the
# honest client (planbctl bench: one stream, batches of 1,024, 2 in flight). The
# server has core 1 for itself. Of each pair of measurements one is idle and one
# under attack. On a quiet machine; builds what it runs.
#
# PLANB_HOSTILE_EDGE=yes measures through the edge (deploy/edge, Debian's
# haproxy): it shares core 1 with the server, and the attacker has an address of
# its own.
#
# Attacker and client share a core: part of what the client loses is the
# processor time of the attacker, not a fault of the server.
set -euo pipefail
cd "$(dirname "$0")/../.."

rate=${1:-0}
shift || true
seconds=${PLANB_HOSTILE_SECONDS:-3}
work=$(mktemp -d /tmp/planb_hostile.XXXXXX)
chmod 711 "$work" # attackers are users of their own
socket=unix://$work/planb.sock
target=$socket hostile_target=$socket
server='' attacker='' edge=''
if [[ -n ${PLANB_HOSTILE_EDGE:-} ]]; then
  read -r port metrics < <(python3 -c 'import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in held))')
  target=127.0.0.1:$port
  hostile_target=127.9.0.1@$target
  export PLANB_EDGE_SERVER=$work/planb.sock PLANB_EDGE_PLAINTEXT=$target \
    PLANB_EDGE_METRICS=127.0.0.1:$metrics
fi
bin=${PLANB_BIN:-$work/bin} # a folder that has the three programs; else built
finish() {
  [[ -z $attacker ]] || kill "$attacker" 2>/dev/null || true
  [[ -z $edge ]] || kill "$edge" 2>/dev/null || true
  [[ -z $server ]] || kill "$server" 2>/dev/null || true
  wait
  rm -r "$work"
}
trap finish EXIT
if [[ -z ${PLANB_BIN:-} ]]; then
  bazel build --noshow_progress --config=opt //server:planb_server \
    //server/testing:hostile_attacker //client:planbctl
  mkdir "$bin"
  cp bazel-bin/server/{planb_server,testing/hostile_attacker} \
    bazel-bin/client/planbctl/planbctl "$bin"
fi

attacks=("$@")
if ((${#attacks[@]} == 0)); then
  mapfile -t attacks < <(grep -hoE '^ +\{"[A-Za-z]+", "' server/testing/hostile_*.cc |
    grep -oE '[A-Z][A-Za-z]+')
fi

# The honest client's lookups a second, in millions.
measure() {
  taskset -c 0 "$bin/planbctl" bench --server="$target" \
    --batch=1024 --depth=2 --seconds="$seconds" --json 2>"$work/errors" |
    python3 -c 'import json, sys
print("%.1f" % (json.load(sys.stdin)["lookups_per_second"] / 1e6))' ||
    echo 0
}

# The most memory that process $1 has had, in MiB.
peak() {
  [[ -n $1 ]] || return 0
  awk '/VmHWM/ {print int($2 / 1024)}' "/proc/$1/status" || echo died
}

printf '%-22s %10s %10s %7s %12s %9s %9s\n' attack 'idle M/s' 'attacked' kept \
  'steps/s' 'peak MiB' "${PLANB_HOSTILE_EDGE:+edge MiB}"
for attack in "${attacks[@]}"; do
  taskset -c 1 "$bin/planb_server" --listen="$socket" --unix_socket_mode=0666 \
    --metrics_address= --store=none --generate=100000 2>"$work/log" &
  server=$!
  until grep -q ' serving$' "$work/log"; do sleep 0.1; done
  if [[ -n ${PLANB_HOSTILE_EDGE:-} ]]; then
    taskset -c 1 haproxy -db -f deploy/edge/haproxy.cfg >"$work/edge" 2>&1 &
    edge=$!
    until "$bin/planbctl" --server="$target" health >"$work/health" 2>&1; do
      kill -0 "$edge"
      sleep 0.1
    done
  fi
  idle=$(measure)
  taskset -c 0 nice -n 19 "$bin/hostile_attacker" "$hostile_target" \
    "$attack" 1 "$rate" >"$work/steps" &
  attacker=$!
  begin=$(date +%s.%N)
  attacked=$(measure)
  kill "$attacker" && wait "$attacker" || true
  attacker=''
  steps=$(tail -n 1 "$work/steps")
  awk -v a="$attack" -v i="$idle" -v t="$attacked" -v s="$steps" \
    -v p="$(peak "$server")" -v h="$(peak "$edge")" -v b="$begin" -v e="$(date +%s.%N)" 'BEGIN {
      kept = i > 0 ? 100 * t / i : 0
      printf "%-22s %10.1f %10.1f %6.0f%% %12.0f %9s %9s\n", a, i, t, kept,
             s / (e - b), p, h }'
  if [[ -n $edge ]]; then
    kill "$edge" && wait "$edge" || true
    edge=''
  fi
  kill "$server" && wait "$server" || true
  server=''
done
