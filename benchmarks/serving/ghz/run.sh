#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Load tests by ghz, each against a server started for it.
#
#   benchmarks/serving/ghz/run.sh SERVER_BINARY OUTPUT_DIR [--short] [NAME...]
#
# Runs the configurations NAME.json (unary, stream_1, stream_256, stream_4096,
# ramp and soak unless named) and leaves OUTPUT_DIR/NAME.json and NAME.html of
# each, and summary.md. --short: two seconds each, to try that all of it
# runs. Exit code 1 unless every call of every run ended with OK.
#
# PLANB_GHZ_SERVER holds more flags of the server, --generate=100000 if unset;
# PLANB_GHZ a ghz of one's own instead of the pinned one.
here=$(dirname "$0")
# shellcheck source=benchmarks/serving/ghz/runs.sh
. "$here/runs.sh"
arguments $# 2 99
server_binary=$1
out=$2
shift 2
short=
names=()
for word in "$@"; do
  if [[ "$word" == --short ]]; then short=yes; else names+=("$word"); fi
done
((${#names[@]})) || names=(unary stream_1 stream_256 stream_4096 ramp soak)
read -ra server_flags <<< "${PLANB_GHZ_SERVER---generate=100000}"

work=$(mktemp -d)
trap cleanup EXIT
mkdir -p "$out"

for name in "${names[@]}"; do
  options=()
  if [[ -n "$short" ]]; then
    options+=(--duration=2s)
    # The whole ramp, in fewer and longer steps.
    [[ "$name" != ramp ]] || options+=(--load-step=1000 --load-end=1500)
  fi
  port=$(free_port)
  start_server server "$server_binary" --listen="127.0.0.1:$port" \
    --metrics_address= "${server_flags[@]}"
  run_ghz "$name" "127.0.0.1:$port" "${options[@]}"
  stop_server server
done
summary "${names[@]}"
