#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Measures the router with each of its tables and the rivals', in turns, and prints CSV.
# Needs libdpdk-dev, two quiet cores and some 6 GB.
#
#   examples/router/measure.sh [FLAGS_OF_MEASURE...] > router.csv
set -euo pipefail
cd "$(dirname "$0")/../.."
bazel build --noshow_progress --config=opt //examples/router:measure \
  //server:planb_server >&2
work=$(mktemp -d /tmp/planb_router.XXXXXX)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
bazel-bin/server/planb_server --listen="unix://$work/server.sock" --store=none \
  --metrics_address= --lookup_cpus=1 --lookup_threads=1 2>"$work/server.log" &
server=$!
until grep -q ' serving' "$work/server.log"; do sleep 0.1; done
line=1
measure() {
  bazel-bin/examples/router/measure "$@" | tail -n "+$line"
  line=2  # the header once
}
for table in real 1000000; do
  for trace in match zipf; do
    measure --table="$table" --trace="$trace" --lpm=0 "$@"  # all on one core
    measure --table="$table" --trace="$trace" --lpm=1 "$@"  # receives on another
  done
done
# The server has a core, the router the other.
measure --fibs=constant,local,rpc --burst=64 --server="unix://$work/server.sock" "$@"
