#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Generates the messages, and tests the Go module against a server.
#
#   client/go/test.sh [--race] [FOLDER]   # with planb_server and
#                                         # libplanb_local.so; builds them if not given
#
# --race checks the module, and tests under the race detector instead, also what waits for
# half a minute and the table inside the process by the C++ library. Modules come from the
# module proxy, as go.sum pins them.
set -euo pipefail
race=''
if [[ ${1:-} == --race ]]; then
  race=yes
  shift
fi
folder=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."
if [[ -z "$folder" ]]; then
  bazel build --noshow_progress //server:planb_server //client:libplanb_local.so
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  cp -L bazel-bin/server/planb_server bazel-bin/client/libplanb_local.so "$folder"
fi
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
export PLANB_SERVER_BINARY=$folder/planb_server
if [[ -z $race ]]; then
  deploy/go_short.sh client/go "${@:2}"
  exit
fi
client/go/generate.sh
deploy/go_check.sh client/go
cd client/go
"$GO" test -race "${@:2}" ./...

# The table inside the process, by the C++ library.
export CGO_CFLAGS="-I$OLDPWD" CGO_LDFLAGS="-L$folder" LD_LIBRARY_PATH=$folder
"$GO" vet -tags planb_local ./local
"$GO" test -race -tags planb_local "${@:2}" ./local
