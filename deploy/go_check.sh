#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks the Go module in a folder: gofmt, the sums of what it uses, go vet.
#
#   GO=$(deploy/go_tool.sh go) deploy/go_check.sh FOLDER
set -euo pipefail
cd "$1"
unformatted=$("$(dirname "$GO")/gofmt" -l .)
[[ -z "$unformatted" ]] || {
  echo "not as gofmt writes it: $unformatted" >&2
  exit 1
}
"$GO" mod verify
"$GO" vet ./...
