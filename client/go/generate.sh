#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Generates planbv1, the messages and stubs of the contract, from proto/.
#
#   client/go/generate.sh [FOLDER]   # planbv1 in FOLDER; default: client/go
#
# Needs protoc and Go. The plugins are those that go.mod pins.
set -euo pipefail
folder=$(mkdir -p "${1:-$(dirname "$0")}" && cd "${1:-$(dirname "$0")}" && pwd)
cd "$(dirname "$0")"
plugins=$(mktemp -d /tmp/planb_go_plugins.XXXXXX)
trap 'rm -rf "$plugins"' EXIT
GOBIN=$plugins "${GO:-go}" install tool
PATH=$plugins:$PATH protoc --proto_path=../../proto \
  --go_out="$folder" --go_opt=module=planb.dev/lookup/client/go \
  --go-grpc_out="$folder" --go-grpc_opt=module=planb.dev/lookup/client/go \
  planb/v1/types.proto planb/v1/route_lookup.proto planb/v1/route_table.proto
