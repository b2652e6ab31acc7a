#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds the wheel, installs it in a fresh environment and tests it there, with
# Debian's gRPC, numpy and protobuf, which are the oldest that it takes.
#
#   client/python/test.sh [--newest] [FOLDER]   # with planb_server; builds it if
#                                               # not given
#
# --newest takes those that the package registry has today instead, tests also what
# waits for half a minute, and has mypy check the package and a program that uses it. It is skipped (exit code 77) where
# the registry does not answer.
set -euo pipefail
newest=''
if [[ ${1:-} == --newest ]]; then
  newest=yes
  shift
fi
server=${1:+$(realpath "$1")/planb_server}
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

# tests ENVIRONMENT ARGUMENTS...: runs the tests against the real server there.
tests() {
  PLANB_SERVER_BINARY=$server "$1/bin/python" -m unittest "${@:2}" planb_lookup_test
}

wheel=$(client/python/wheel.sh "$work")
cp client/python/{planb_lookup_test,typed_program}.py "$work"
cd "$work" # Not beside the sources: the installed package is tested.
if [[ -z $newest ]]; then
  /usr/bin/python3 -m venv --system-site-packages --without-pip venv
  install venv --no-index --no-deps "$wheel"
  PLANB_SHORT=1 tests venv "${@:2}"
  exit
fi

# Once the registry has answered, all else has to work.
/usr/bin/python3 -m pip download --quiet --disable-pip-version-check --retries=1 \
  --timeout=20 --no-deps --dest="$work/answer" "${checkers[0]}" || {
  echo "SKIP: the package registry does not answer: no newer packages, no types"
  exit 77
}

# protoc's code does not check the version of protobuf itself: the tests do.
/usr/bin/python3 -m venv --without-pip registry
install registry "$wheel"
echo "with $(/usr/bin/python3 -m pip --python=registry/bin/python list \
  --disable-pip-version-check --format=freeze | grep -v typing | xargs)"
tests registry "${@:2}"

install registry "${checkers[@]}"
registry/bin/python -m mypy --strict --cache-dir="$work/mypy" -p planb_lookup \
  -m typed_program
