#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Generates the messages, and checks and tests the Go module against a server.
#
#   client/go/test.sh [PLANB_SERVER]   # builds the server if not given
#
# Modules come from the module proxy, as go.sum pins them.
set -euo pipefail
server=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."
if [[ -z "$server" ]]; then
  bazel build --noshow_progress //server:planb_server
  server=$(realpath bazel-bin/server/planb_server)
fi
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local PLANB_SERVER_BINARY=$server
client/go/generate.sh
cd client/go
unformatted=$("$(dirname "$GO")/gofmt" -l ./*.go cmd)
[[ -z "$unformatted" ]] || {
  echo "not as gofmt writes it: $unformatted" >&2
  exit 1
}
"$GO" mod verify
"$GO" vet ./...
"$GO" test -race "${@:2}" ./...
"$GO" test -run='^$' -fuzz=FuzzRepliesOfAnyBytes -fuzztime=5s .
