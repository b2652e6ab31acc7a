#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds the wheel, installs it in a fresh environment and tests it there.
#
#   client/python/test.sh [PLANB_SERVER]   # builds the server if not given
#
# gRPC, numpy and protobuf are Debian's: nothing comes from the network.
set -euo pipefail
server=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."
if [[ -z "$server" ]]; then
  bazel build --noshow_progress //server:planb_server
  server=$(realpath bazel-bin/server/planb_server)
fi
work=$(mktemp -d /tmp/planb_python.XXXXXX)
trap 'rm -rf "$work"' EXIT

wheel=$(client/python/wheel.sh "$work")
/usr/bin/python3 -m venv --system-site-packages --without-pip "$work/venv"
/usr/bin/python3 -m pip --python="$work/venv/bin/python" install --quiet \
  --disable-pip-version-check --no-index --no-deps "$wheel"
cp client/python/planb_lookup_test.py "$work"
cd "$work" # Not beside the sources: the installed package is tested.
PLANB_SERVER_BINARY=$server venv/bin/python -m unittest "${@:2}" planb_lookup_test
