#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds planb-feed: one static program, the same for the same sources.
#
#   feed/build.sh FOLDER [ARCHITECTURE]     # FOLDER/planb-feed; default: amd64
#
# The messages of client/go are generated first. Modules come from the module proxy, as
# go.sum pins them.
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=$(< VERSION)
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
client/go/generate.sh
CGO_ENABLED=0 GOARCH=${2:-amd64} "$GO" -C feed build -trimpath \
  -ldflags="-s -w -buildid= -X main.version=$version" -o "$folder/planb-feed" ./cmd/planb-feed
