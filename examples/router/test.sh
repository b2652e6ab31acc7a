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
for flag in --repeats=0 --wire=near --wire=near,far; do  # of too many packets
  if bazel-bin/examples/router/measure "$flag" 2>/dev/null; then
    echo "$flag is no error"
    exit 1
  fi
done
for flag in --report=0s --interfaces=lo,lo --health_address=127.0.0.1:99999; do
  code=0
  bazel-bin/examples/router/router --interfaces=lo "$flag" 2>/dev/null || code=$?
  if [[ $code != 2 ]]; then
    echo "router $flag ended with $code"
    exit 1
  fi
done
flags=(--table=20000 --fibs=local,rpc --repeats=1 --time=500ms --stages)
# No packet was lost or went elsewhere, and each of five stages has its cycles.
check() {
  awk -F, 'BEGIN {count = split("reception lookup lpm sending network", stages, " ")}
    {print > "/dev/stderr"}
    NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i}
    NR > 1 {
      if ($column["lost"] != "0" || $column["wrong"] != "0") bad = 1
      for (i = 1; i <= count; ++i) if ($column[stages[i]] + 0 <= 0) bad = 1
    }
    END {exit bad || NR != 3}'
}
(cd bazel-bin && examples/router/measure "${flags[@]}" --changes=10000) | check
[[ $EUID != 0 ]] || PLANB_BUILT=1 examples/router/measure.sh veth -- "${flags[@]}" | check
bazel test --noshow_progress //examples/router:{pipeline,device,pcap,rival_routes}_test \
  //benchmarks/rivals:dpdk_fib_test
bazel test --noshow_progress --config=asan //examples/router:pcap_test
