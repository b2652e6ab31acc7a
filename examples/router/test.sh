#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Builds the router and runs the tests that need DPDK, one of packets also
# with ASan; skipped without libdpdk-dev.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [[ ! -e /usr/include/dpdk/rte_ethdev.h ]]; then
  echo "SKIP: libdpdk-dev is not installed"
  exit 77
fi
bazel build --noshow_progress //examples/router //examples/router:measure
if bazel-bin/examples/router/measure --repeats=0 2>/dev/null; then
  echo "a measurement of no turn is no error"
  exit 1
fi
# Columns 14 and 15: packets that were lost, and that went elsewhere.
(cd bazel-bin && examples/router/measure --table=20000 --fibs=local,rpc \
  --changes=10000 --repeats=1 --time=500ms) |
  awk -F, 'NR > 1 && $14 + $15 > 0 {bad = 1} END {exit bad || NR != 3}'
bazel test --noshow_progress //examples/router:{pipeline,pcap,rival_routes}_test \
  //benchmarks/rivals:dpdk_fib_test
bazel test --noshow_progress --config=asan //examples/router:pcap_test
