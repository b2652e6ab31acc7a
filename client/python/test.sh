#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds the wheel, installs it in a fresh environment and tests it there; has mypy
# check it, and a program that uses it.
#
#   client/python/test.sh [PLANB_SERVER]   # builds the server if not given
#
# gRPC, numpy and protobuf are Debian's. mypy and the stubs come from the package
# registry; where that does not answer, the check of types is skipped.
set -euo pipefail
server=${1:+$(realpath "$1")}
cd "$(dirname "$0")/../.."
if [[ -z "$server" ]]; then
  bazel build --noshow_progress //server:planb_server
  server=$(realpath bazel-bin/server/planb_server)
fi
work=$(mktemp -d /tmp/planb_python.XXXXXX)
trap 'rm -rf "$work"' EXIT
# What mypy says depends on these.
checkers=(mypy==2.4.1 numpy==2.4.6 types-grpcio==1.85.0.20261028
  types-protobuf==7.35.1.20260906)

# install ENVIRONMENT ARGUMENTS...: installs packages there, with Debian's pip.
install() {
  /usr/bin/python3 -m pip --python="$work/$1/bin/python" install --quiet \
    --disable-pip-version-check "${@:2}"
}

wheel=$(client/python/wheel.sh "$work")
cp client/python/{planb_lookup_test,typed_program}.py "$work"
cd "$work" # Not beside the sources: the installed package is tested.
/usr/bin/python3 -m venv --system-site-packages --without-pip venv
install venv --no-index --no-deps "$wheel"
PLANB_SERVER_BINARY=$server venv/bin/python -m unittest "${@:2}" planb_lookup_test

# Once the registry has answered, all else has to work.
/usr/bin/python3 -m pip download --quiet --disable-pip-version-check --retries=1 \
  --timeout=20 --no-deps --dest="$work/answer" "${checkers[0]}" || {
  echo "SKIP: the package registry does not answer: no check of types"
  exit 0
}
/usr/bin/python3 -m venv --without-pip types
install types "${checkers[@]}"
install types --no-index --no-deps "$wheel"
types/bin/python -m mypy --strict --cache-dir="$work/mypy" -p planb_lookup \
  -m typed_program
