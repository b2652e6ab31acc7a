#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Real servers, Debian's real Prometheus, real faults: the alerts fire and
# resolve, and each query of the dashboard has an answer. Takes about a minute.
#
#   deploy/monitoring/prometheus_test.sh BIN
#
# BIN is a folder with planb_server and planbctl. Needs Python with yaml and
# grpc, and openssl, and as root on Debian installs what is missing. Exit code
# 77 (skipped) where it cannot.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)

(($# == 1)) || {
  sed -n '2,${/^[^#]/q;/SPDX/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
}

"$here/../packages.sh" import.yaml:python3-yaml import.grpc:python3-grpcio \
  openssl
programs=$("$here/prometheus.sh") || {
  code=$?
  echo "$programs"
  exit "$code"
}
exec /usr/bin/python3 "$here/prometheus_test.py" "$(cd "$1" && pwd)" "$programs"
