#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# The service at work, in half a minute: a server on a made-up table, lookups
# over both kinds of socket, every answer checked, a route changed, metrics.
set -euo pipefail
cd "$(dirname "$0")/.."

routes=100000
work=$(mktemp -d /tmp/planb_demo.XXXXXX)
server=0
finish() {
  local status=$?
  if ((server)) && kill -0 "$server" 2>/dev/null; then
    kill -KILL "$server"
  fi
  if ((status)); then
    echo "demo failed; the server said:" >&2
    cat "$work/server.log" >&2 || true
  fi
  rm -rf "$work"
}
trap finish EXIT

planbctl() { bazel-bin/client/planbctl/planbctl --timeout=60s "$@"; }
say() { printf '\n== %s\n' "$*"; }

say "A table of $routes IPv6 and 20000 IPv4 routes, made up like the Internet's"
planbctl generate --routes $routes --ipv4 20000 "$work/table.txt"
shuf -n 4 --random-source=<(yes) "$work/table.txt"

say "The server, on a Unix socket and on TCP"
bazel-bin/server/planb_server --generate=$routes --generate_ipv4=20000 \
  --listen="unix://$work/planb.sock,127.0.0.1:0" \
  --metrics_address=127.0.0.1:0 --log_level=info 2>"$work/server.log" &
server=$!
port() { sed -n "s/.* $1 .*port=\([0-9]*\).*/\1/p" "$work/server.log" | tail -n 1; }
for _ in $(seq 600); do
  grep -q ' serving$' "$work/server.log" && break
  kill -0 "$server"
  sleep 0.1
done
cat "$work/server.log"
tcp=127.0.0.1:$(port 'listening address=127.0.0.1:0')
metrics=127.0.0.1:$(port 'metrics')
export PLANB_SERVER=unix://$work/planb.sock

say "Its status"
planbctl status

say "A few addresses by hand"
sample=$(shuf -n 3 --random-source=<(yes) "$work/table.txt" | sed 's|/.*||')
# shellcheck disable=SC2086
planbctl lookup $sample

say "Every interval boundary +-1 and a million samples, over the Unix socket"
planbctl verify "$work/table.txt"
say "The same over TCP"
planbctl --server="$tcp" verify "$work/table.txt"

say "Throughput: one stream, 4096 addresses a batch, each in a random route"
planbctl bench --seconds=3 --depth=8 --trace=match --routes="$work/table.txt"

say "Change a route, see the generation move"
planbctl lookup 2001:db8::1 || echo "(exit status $?: no route)"
planbctl announce 2001:db8::/32 7
planbctl lookup 2001:db8::1
planbctl withdraw 2001:db8::/32

say "Some of the metrics"
curl -fsS "http://$metrics/metrics" | grep -E \
  '^planb_(lookups_total|lookup_misses|lookup_batches|routes|generation|fib_bytes|kernel|rebuilds|rebuild_duration_seconds_sum)'

say "SIGTERM: drain and stop"
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=0
tail -n 2 "$work/server.log"
echo "exit status $status"
((status == 0))
echo
echo "The demo is done: all answers were right."
