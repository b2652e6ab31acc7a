#!/bin/bash
# Tests the dashboard without a server: dashboard.json is what dashboard.py
# makes, and lints clean by a linter that finds what it should.
#
#   deploy/monitoring/dashboard_test.sh
#
# Needs Python alone.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")"
./packages.sh python3

./dashboard.py --check dashboard.json
./lint_dashboard.py dashboard.json
./lint_dashboard_test.py
