#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Checks with Porcupine that servers that share a store in etcd are linearizable,
# while they, etcd's members and the links between break: see main.go.
#
#   deploy/linearizability/test.sh [FOLDER] [--long] [flags of the program]
#
# FOLDER holds planb_server; without it Bazel builds it. A minute, or with --long
# half an hour. The last line has the counts; what is not linearizable stays in
# a folder that is named there. --seed=N plays a schedule again. Exit code 77
# (SKIP) where there is no program etcd. Modules come from the module proxy, as
# go.sum pins them.
set -euo pipefail
folder=''
seconds=60
flags=()
for argument in "$@"; do
  case $argument in
    --long) seconds=1800 ;;
    -*) flags+=("$argument") ;;
    *) folder=$(realpath "$argument") ;;
  esac
done
cd "$(dirname "$0")/../.."
command -v etcd etcdctl >/dev/null || {
  echo "SKIP: there is no etcd here"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z "$folder" ]]; then
  bazel build --noshow_progress //server:planb_server
  cp -L bazel-bin/server/planb_server "$work"
  folder=$work
fi
g++ -std=c++20 -O1 -fPIC -shared -o "$work/libjumping_clock.so" \
  base/testing/jumping_clock.cc -ldl
GO=$(deploy/go_tool.sh go)
export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
client/go/generate.sh
deploy/go_check.sh deploy/linearizability
cd deploy/linearizability
"$GO" test .
"$GO" build -o "$work/linearizability" .
"$work/linearizability" --server="$folder/planb_server" \
  --clock="$work/libjumping_clock.so" --seconds="$seconds" "${flags[@]}"
