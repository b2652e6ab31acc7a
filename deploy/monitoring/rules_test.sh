#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Tests the rules without a server: valid, each alert fires and does not, and
# rules, tests, runbook and README fit together.
#
#   deploy/monitoring/rules_test.sh
#
# Needs Debian's Prometheus and python3-yaml, which root gets. Exit code 77
# (skipped) where it cannot.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=deploy/lib.sh
. "$here/../lib.sh"
cd "$here"

../packages.sh import.yaml:python3-yaml
find_prometheus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$programs/promtool" check config prometheus.yaml
"$programs/promtool" test rules rules_test.yaml
./processes.py rules.yaml > "$work/faster.yaml"
"$programs/promtool" check rules "$work/faster.yaml"
./kubernetes.py > "$work/kubernetes.yaml"
grep -q '^kind: PodMonitor' "$work/kubernetes.yaml"
./lint_rules.py rules.yaml rules_test.yaml ../RUNBOOK.md README.md
