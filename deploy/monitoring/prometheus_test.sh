#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Real servers, Debian's real Prometheus, real faults: the alerts fire and
# resolve, and each query of the dashboard has an answer. Takes about a minute.
#
#   deploy/monitoring/prometheus_test.sh BIN
#
# BIN is a folder with planb_server, planbctl and planb-feed. Needs Python with yaml and
# grpc, openssl and etcd, and as root on Debian installs what is missing. Exit code
# 77 (skipped) where it cannot.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"

arguments $# 1

"$here/../packages.sh" import.yaml:python3-yaml import.grpc:python3-grpcio \
  openssl etcd:etcd-server etcdctl:etcd-client
find_prometheus
exec /usr/bin/python3 "$here/prometheus_test.py" "$(cd "$1" && pwd)" "$programs"
