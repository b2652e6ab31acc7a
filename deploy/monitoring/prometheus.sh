#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Prints the folder of the programs prometheus and promtool: the machine's, or
# those of Debian's package, unpacked under .cache/ of the repository. The
# package is not installed: that would start a service.
#
#   deploy/monitoring/prometheus.sh
#
# Progress goes to stderr. Exit code 77, and the reason, where it has neither.
set -euo pipefail
shopt -s inherit_errexit
cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache

skip() {
  echo "SKIP: no Prometheus here, and $*"
  exit 77
}

# Not as apt's own user, which may not enter .cache/.
fetch() {
  apt-get download -qq -o APT::Sandbox::User=root prometheus
}

if command -v promtool > /dev/null && command -v prometheus > /dev/null; then
  dirname "$(command -v prometheus)"
  exit
fi
mkdir -p "$cache"
exec 9> "$cache/prometheus.lock"
flock 9 # Two tests may ask at once.
if [[ ! -x "$cache/prometheus/usr/bin/prometheus" ]]; then
  command -v apt-get > /dev/null || skip "no apt-get to fetch it"
  scratch=$(mktemp -d "$cache/prometheus.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  echo "prometheus.sh: fetching Debian's package" >&2
  (cd "$scratch" && { fetch ||
    { apt-get update -qq && fetch; }; }) >&2 9>&- ||
    skip "Debian's package cannot be fetched"
  dpkg-deb --extract "$scratch"/prometheus_*.deb "$scratch/root"
  rm -rf "$cache/prometheus"
  mv "$scratch/root" "$cache/prometheus"
fi
echo "$cache/prometheus/usr/bin"
