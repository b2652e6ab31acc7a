#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Generates the messages of the contract, and runs the short tests of the Go module in a
# folder.
#
#   GO=$(deploy/go_tool.sh go) deploy/go_short.sh FOLDER [ARGUMENT OF go test]...
#
# Modules compile with the same options, so that what they share is compiled once, and one
# after another: go lets two processes compile the same package at the same time. Their
# tests run beside each other, and wait more than they compute. deploy/go_check.sh vets.
set -euo pipefail
# As feed/build.sh builds.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
cd "$(dirname "$0")/.."
mkdir -p .cache/go
exec 9> .cache/go/compiling
flock 9
client/go/generate.sh
cd "$1"
"$GO" list -export -test ./... > /dev/null
exec 9>&-
"$GO" test -short -vet=off -p=8 -parallel=8 "${@:2}" ./...
