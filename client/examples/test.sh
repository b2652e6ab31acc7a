#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs the examples against a server of their own.
#
#   client/examples/test.sh [PLANB_SERVER]   # builds the server if not given
#
# Stubs are generated into a scratch folder. Go's downloads and objects stay in
# .cache/go/examples, so that only the first run needs the module proxy.
set -euo pipefail
cd "$(dirname "$0")/../.."

server=${1:-}
if [[ -z "$server" ]]; then
  bazel build --noshow_progress //server:planb_server
  server=bazel-bin/server/planb_server
fi
protos=(planb/v1/types.proto planb/v1/route_lookup.proto)
work=$(mktemp -d /tmp/planb_examples.XXXXXX)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

# Python that has Debian's gRPC and numpy: perhaps not the first in the path.
python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import grpc, numpy' 2>/dev/null; then
      PYTHONPATH=$work/python "$candidate" "$@"
      return
    fi
  done
  echo "no python3 has grpc and numpy: run third_party/install.sh" >&2
  return 1
}

run_python() {
  mkdir "$work/python"
  protoc -I proto --python_out="$work/python" --grpc_out="$work/python" \
    --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" "${protos[@]}"
  python client/examples/example.py "$target"
}

run_go() {
  local go proto package=planb.example/planbv1
  local options=(--go_opt="module=planb.example"
    --go-grpc_opt="module=planb.example")
  go=$(deploy/go_tool.sh go)
  for proto in "${protos[@]}"; do
    options+=(--go_opt="M$proto=$package" --go-grpc_opt="M$proto=$package")
  done
  mkdir "$work/go"
  cp client/examples/{example.go,go.mod,go.sum} "$work/go"
  local cache=$PWD/.cache/go/examples
  export GOMODCACHE=$cache/mod GOCACHE=$cache/build GOBIN=$work/bin
  export GOTOOLCHAIN=local GOFLAGS=-modcacherw CGO_ENABLED=0
  (cd "$work/go" && "$go" install tool)
  PATH=$work/bin:$PATH protoc -I proto --go_out="$work/go" \
    --go-grpc_out="$work/go" "${options[@]}" "${protos[@]}"
  (cd "$work/go" && "$go" run . "$target")
}

for network in {0..255}; do
  printf '2001:db8:%02x00::/40 %d\n' "$network" $((network + 1))
done >"$work/routes"
echo '2001:db8:0:0:8000::/65 1000' >>"$work/routes"
target=unix://$work/planb.sock
"$server" --routes="$work/routes" --listen="$target" --metrics_address= \
  2>"$work/log" &
for _ in {1..100}; do
  [[ -S "$work/planb.sock" ]] && break
  sleep 0.1
done
if ! [[ -S "$work/planb.sock" ]]; then
  cat "$work/log" >&2
  exit 1
fi

run_python
run_go
