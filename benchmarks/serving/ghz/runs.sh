# SPDX-License-Identifier: Apache-2.0

# shellcheck shell=bash disable=SC2154
# Sourced by run.sh and deploy/load/run.sh: runs of ghz and what is kept of them.
# Expects `out`, the folder of the reports, and lib.sh's `work`.
GHZ_FILES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=deploy/lib.sh
. "$GHZ_FILES/../../../deploy/lib.sh"

# The requests of configuration $1.
messages() {
  local words
  case $1 in
    unary | ramp) words=(lookup) ;;
    soak) words=(batch 256) ;;
    stream_*) words=(batch "${1#stream_}") ;;
    *)
      echo "run.sh: no configuration $1" >&2
      exit 2
      ;;
  esac
  python3 -B "$GHZ_FILES/messages.py" "${words[@]}"
}

# Of the server `server`; of another, perhaps on another machine, 0.
resident_kb() {
  [[ -n "${server_pid[server]:-}" ]] || {
    echo 0
    return
  }
  awk '/^VmRSS/ { print $2 }' "/proc/${server_pid[server]}/status"
}

# run_ghz NAME TARGET OPTION...: leaves NAME.json and NAME.html in `out`.
run_ghz() {
  local name=$1 before
  messages "$name" > "$work/$name.bin"
  ghz=${ghz:-${PLANB_GHZ:-$("$GHZ_FILES/../../../deploy/go_tool.sh" ghz)}}
  before=$(resident_kb)
  # Its exit code only speaks of its own work; report.py judges.
  "$ghz" --config="$GHZ_FILES/$name.json" --binary-file="$work/$name.bin" \
    --format=json --output="$work/report" "${@:3}" "$2" > "$work/ghz.log" 2>&1 ||
    fail "ghz with $name.json: $(tail -n 3 "$work/ghz.log")"
  python3 -B "$GHZ_FILES/report.py" keep "$work/report" "$GHZ_FILES/$name.json" \
    "$work/$name.bin" "$before" "$(resident_kb)" "$out/$name"
  echo "$name: done"
}

# summary NAME...: writes and prints it; fails unless every call ended with OK.
summary() {
  python3 -B "$GHZ_FILES/report.py" summary "$out" "$@"
}
