#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# A short soak: every kind of event once or more, every error and every answer
# judged. (Memory's slope is not, in so short a time; soak.py says more.)
#
#   deploy/load/soak_test.sh BIN [SECONDS]
#
# BIN holds planb_server and planbctl. As root on Debian it installs the
# packages it misses; exit code 77 (skipped) where they cannot be had.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
arguments $# 1 2

"$here/../packages.sh" protoc:protobuf-compiler \
  grpc_python_plugin:protobuf-compiler-grpc openssl \
  import.grpc:python3-grpcio import.google.protobuf:python3-protobuf

out=$(mktemp -d /tmp/planb_soak_test.XXXXXX)
trap 'rm -rf "$out"' EXIT
"$here/soak_report_test.py" 2> "$out/log" || {
  cat "$out/log"
  exit 1
}
code=0
"$here/soak.py" "$1" "$out" --seconds="${2:-20}" --routes=20000 || code=$?
if ((code != 0)); then
  echo "--- end of the server's log"
  tail -n 40 "$out/server.log" || true
  exit 1
fi
# It tried all that it is for.
/usr/bin/python3 -B - "$out/report.json" << 'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    report = json.load(file)
assert [r["signal"] for r in report["restarts"][:2]] == ["SIGTERM", "SIGKILL"]
assert report["tls"] and len(report["rotations"]) >= 2, report["rotations"]
updates = report["clients"]["updates"]["counts"]
for kind in ("announced", "replaced", "withdrawn", "full_checks"):
    assert updates.get(kind, 0) > 0, updates
assert {life for _, life, _ in report["samples"]} >= {0, 1, 2}
assert len(report["library"]) == 2
for library in report["library"].values():
    assert library["reconnects"] >= 2, library
PYTHON
