# SPDX-License-Identifier: Apache-2.0

# Sourced by the scripts here: one server on a loopback port, and its end.
# Expects `work`, a scratch folder; sets `server` and `port`.

server=

cleanup() {
  if [[ -n "$server" ]]; then
    kill -KILL "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}

fail() {
  echo "FAIL: $*" >&2
  echo "--- end of the server's log" >&2
  tail -n 20 "$work/server.log" >&2
  exit 1
}

# start_server BINARY FLAG...
start_server() {
  local i
  port=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$1" "--listen=127.0.0.1:$port" --metrics_address= "${@:2}" \
    > "$work/server.log" 2>&1 &
  server=$!
  for ((i = 0; ; i++)); do
    if (exec 3<> "/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      break
    fi
    kill -0 "$server" 2>/dev/null || fail "the server ended at once"
    ((i < 300)) || fail "no listener on port $port after 30 s"
    sleep 0.1
  done
}

# Ends it as an operator would, and fails unless it ends well.
stop_server() {
  local code=0
  kill -TERM "$server"
  wait "$server" || code=$?
  server=
  ((code == 0)) || fail "exit code $code after SIGTERM"
}
