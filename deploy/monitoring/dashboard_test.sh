#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the dashboard without a server: what dashboard.py prints lints clean by
# a linter that finds what it should.
#
#   deploy/monitoring/dashboard_test.sh
#
# Needs Python alone.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
./packages.sh python3
work=$(mktemp -d /tmp/planb_dashboard.XXXXXX)
trap 'rm -r "$work"' EXIT

./dashboard.py >"$work/dashboard.json"
./lint_dashboard.py "$work/dashboard.json"
./lint_dashboard_test.py
