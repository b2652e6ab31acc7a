#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Tests planb-feed with a real server.
#
#   feed/test.sh [--race | --long] [FOLDER]   # with planb_server; builds it if not given
#
# --race checks the module, and tests under the race detector instead, with more rounds. --long
# tests with those rounds, also what runs GoBGP, in which the race detector finds races.
# The messages of client/go are generated first. Modules come from the module proxy, as
# go.sum pins them.
set -euo pipefail
how=''
if [[ ${1:-} == --race || ${1:-} == --long ]]; then
  how=$1
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
if [[ -z $how ]]; then
  deploy/go_short.sh feed "${@:2}"
  exit
fi
client/go/generate.sh
flags=(-race)
if [[ $how == --race ]]; then
  deploy/go_check.sh feed
else
  export CGO_ENABLED=0
  flags=(-trimpath -timeout=30m)
fi
cd feed
"$GO" test "${flags[@]}" "${@:2}" ./...
