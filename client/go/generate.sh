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
# Go keeps these programs beside its objects.
messages=$("${GO:-go}" tool -n protoc-gen-go)
stubs=$("${GO:-go}" tool -n protoc-gen-go-grpc)
mkdir -p "$folder/planbv1"
new=$(mktemp -d "$folder/planbv1/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
protoc --proto_path=../../proto \
  --plugin=protoc-gen-go="$messages" --plugin=protoc-gen-go-grpc="$stubs" \
  --go_out="$new" --go_opt=module=planb.dev/lookup/client/go \
  --go-grpc_out="$new" --go-grpc_opt=module=planb.dev/lookup/client/go \
  planb/v1/types.proto planb/v1/route_lookup.proto planb/v1/route_table.proto
# What stays as it is may be read by a test that runs beside this.
for file in "$new"/planbv1/*; do
  cmp --quiet "$file" "$folder/planbv1/${file##*/}" || mv "$file" "$folder/planbv1"
done
