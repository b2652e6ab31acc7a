#!/bin/bash
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
  sed -n '5,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

missing=()
command -v openssl > /dev/null || missing+=(openssl)
/usr/bin/python3 -c 'import grpc' 2> /dev/null || missing+=(python3-grpcio)
/usr/bin/python3 -c 'import yaml' 2> /dev/null || missing+=(python3-yaml)
if ((${#missing[@]} > 0)); then
  if [[ "$(id -u)" != 0 ]] || ! command -v apt-get > /dev/null; then
    echo "SKIP: not installed: ${missing[*]}"
    exit 77
  fi
  echo "installing ${missing[*]}"
  { apt-get update -qq &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends "${missing[@]}"; } > /dev/null || {
    echo "SKIP: cannot install ${missing[*]}"
    exit 77
  }
fi
programs=$("$here/prometheus.sh") || {
  echo "$programs"
  exit 77
}
exec /usr/bin/python3 "$here/prometheus_test.py" "$(cd "$1" && pwd)" "$programs"
