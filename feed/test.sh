#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Tests planb-feed with a real server.
#
#   feed/test.sh [--race] [FOLDER]   # with planb_server; builds it if not given
#
# --race checks the module, and tests under the race detector instead, with more rounds.
# The messages of client/go are generated first. Modules come from the module proxy, as
# go.sum pins them.
set -euo pipefail
race=''
if [[ ${1:-} == --race ]]; then
  race=yes
  shift
fi
folder=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
if [[ -z "$folder" ]]; then
  bazel build --noshow_progress //server:planb_server //client/planbctl
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cp -L bazel-bin/server/planb_server bazel-bin/client/planbctl/planbctl "$folder"
fi
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
export PLANB_SERVER_BINARY=$folder/planb_server
if [[ -z $race ]]; then
  deploy/go_short.sh feed "${@:2}"
  exit
fi
client/go/generate.sh
deploy/go_check.sh feed
cd feed
"$GO" test -race "${@:2}" ./...
