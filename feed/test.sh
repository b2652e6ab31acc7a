#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks and tests planb-feed with a real server.
#
#   feed/test.sh [--race] [FOLDER]   # with planb_server; builds it if not given
#
# --race tests under the race detector instead, with more rounds. The messages of
# client/go are generated first. Modules come from the module proxy, as go.sum pins them.
set -euo pipefail
race=''
if [[ ${1:-} == --race ]]; then
  race=yes
  shift
fi
folder=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
if [[ -z "$folder" ]]; then
  bazel build --noshow_progress //server:planb_server
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cp -L bazel-bin/server/planb_server "$folder"
fi
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
export PLANB_SERVER_BINARY=$folder/planb_server
if [[ -z $race ]]; then
  # As build.sh builds, so that nothing is compiled twice.
  export CGO_ENABLED=0 GOFLAGS="$GOFLAGS -trimpath"
fi
client/go/generate.sh
deploy/go_check.sh feed
cd feed
if [[ -n $race ]]; then
  "$GO" test -race "${@:2}" ./...
else
  "$GO" test -short "${@:2}" ./...
fi
