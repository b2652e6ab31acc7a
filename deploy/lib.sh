# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash disable=SC2154
# Sourced first by the scripts here: strict mode, how a script ends, and servers as child processes. What starts servers expects
# `work`, a scratch folder; the servers' logs are there.
set -euo pipefail
shopt -s inherit_errexit

# arguments COUNT LEAST [MOST]: else prints the script's first comment and ends.
arguments() {
  (($1 < $2 || $1 > ${3:-$2})) || return 0
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

skip() {
  echo "SKIP: $*"
  exit 77
}

need_root() {
  [[ "$(id -u)" == 0 ]] || skip "$* needs root"
}

# Sets `programs`, the folder of prometheus and promtool; skips without them.
find_prometheus() {
  local code=0
  programs=$("${BASH_SOURCE[0]%/*}/monitoring/prometheus.sh") || code=$?
  ((code == 0)) || {
    echo "$programs"
    exit "$code"
  }
}

fail() {
  echo "FAIL: $*" >&2
  local log
  for log in "${work:-/nonexistent}"/*.log; do
    [[ -s "$log" ]] || continue
    echo "--- end of $(basename "$log")" >&2
    tail -n 20 "$log" >&2
  done
  exit 1
}

declare -A server_pid=()

cleanup() {
  local name
  for name in "${!server_pid[@]}"; do
    kill -KILL "${server_pid[$name]}" 2> /dev/null || true
  done
  if [[ -n "${soak_pid:-}" ]]; then
    kill -KILL "$soak_pid" 2> /dev/null || true
  fi
  wait 2> /dev/null || true
  rm -rf "$work"
}

# start_server NAME BINARY FLAG...: returns once it serves.
start_server() {
  local name=$1 i
  # Here, not by the child in its own time: the last life's log says "serving".
  : > "$work/$name.log"
  "${@:2}" 2> "$work/$name.log" &
  server_pid[$name]=$!
  for ((i = 0; ; i++)); do
    if grep -q ' serving$' "$work/$name.log"; then
      return
    fi
    kill -0 "${server_pid[$name]}" 2> /dev/null || fail "$name ended at once"
    ((i < 600)) || fail "$name does not serve after 60 s"
    sleep 0.1
  done
}

# Ends it as an operator would, and fails unless it ends well.
stop_server() {
  local name=$1 code=0
  kill -TERM "${server_pid[$name]}"
  wait "${server_pid[$name]}" || code=$?
  unset "server_pid[$name]"
  ((code == 0)) || fail "$name: exit code $code after SIGTERM"
}

# The port that the server bound for its metrics.
metrics_port() {
  sed -n 's/.* serving metrics .*port=\([0-9]*\)$/\1/p' "$work/$1.log"
}

# The value of a metric without labels.
metric() {
  (
    exec 3<> "/dev/tcp/127.0.0.1/$(metrics_port "$1")"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    sed -n "s/^$2 \([0-9.e+]*\).*/\1/p" <&3
  )
}

# await_streams COUNT NAME...: returns once so many streams of lookups are open,
# on all these servers together.
await_streams() {
  local i open name
  for ((i = 0; ; i++)); do
    open=0
    for name in "${@:2}"; do
      open=$((open + $(metric "$name" planb_lookup_streams)))
    done
    if ((open >= $1)); then
      return
    fi
    ((i < 600)) || fail "$open streams on ${*:2} after 60 s, not $1"
    sleep 0.1
  done
}

# A port without a listener, and that no connection gets by chance while its
# server is away: below those that the kernel hands out.
free_port() {
  local port
  while true; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null || break
  done
  echo "$port"
}

# field NAME: a number of a JSON line on the standard input.
field() {
  grep -oE "\"$1\":[0-9.eE+-]+" | cut -d: -f2
}
