#!/bin/bash
# Tests the rules without a server: valid, each alert fires and does not, and
# rules, tests and runbook fit together.
#
#   deploy/monitoring/rules_test.sh
#
# Exit code 77 (skipped) without Debian's Prometheus or python3-yaml.
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"

/usr/bin/python3 -c 'import yaml' 2> /dev/null || {
  echo "SKIP: python3-yaml is not installed"
  exit 77
}
programs=$(./prometheus.sh) || {
  echo "$programs"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$programs/promtool" check config prometheus.yaml
"$programs/promtool" test rules rules_test.yaml
./faster.py rules.yaml > "$work/faster.yaml"
"$programs/promtool" check rules "$work/faster.yaml"
./kubernetes.py --check kubernetes.yaml
./lint_rules.py rules.yaml rules_test.yaml ../RUNBOOK.md
