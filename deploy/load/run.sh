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
# streams a second, of 20 batches of 256 addresses. Leaves NAME.json and
# NAME.html of each, and summary.md. Exit code 1 unless every call ended with
# OK. PLANB_GHZ: a ghz of one's own instead of the pinned one; job.yaml runs the
# same in Kubernetes.
here=$(dirname "$0")
# shellcheck source=benchmarks/serving/ghz/runs.sh
. "$here/../../benchmarks/serving/ghz/runs.sh"
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
run_ghz unary "$target" --rps=500 --duration="${seconds}s"
run_ghz soak "$target" --rps=20 --duration="${seconds}s"
if [[ -n "${server_pid[server]:-}" ]]; then
  stop_server server
fi
summary unary soak
