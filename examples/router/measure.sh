#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Measures the router and prints CSV. Needs libdpdk-dev, two quiet cores and some 7 GB.
#
#   examples/router/measure.sh [PART...] [-- FLAGS_OF_MEASURE...] > router.csv
#
# The parts, by default all:
#   tables   each table in turns: one core for all; one that looks up, one for the rest
#   rpc      lookups by a server at the other core, and the latency at half the rate
#   changes  while 10,000 routes change a second
#   restart  while the server is killed and comes back
#   stages   cycles a packet by stage
#   veth     the same, with packets that the kernel takes over a veth pair; root
#
# With PLANB_BUILT=1 the programs are those that bazel-bin has.
set -euo pipefail
cd "$(dirname "$0")/../.."
PLANB_DATA_DIR=$(realpath -m "${PLANB_DATA_DIR:-../shared/data}")
export PLANB_DATA_DIR
parts=()
while (($# > 0)) && [[ $1 != -- ]]; do parts+=("$1") && shift; done
flags=("${@:2}")
((${#parts[@]})) || parts=(tables rpc changes restart stages veth)
[[ -n ${PLANB_BUILT:-} ]] || bazel build --noshow_progress --config=opt \
  //examples/router:measure //server:planb_server >&2
cd bazel-bin  # where measure finds server/planb_server
line=1 within=()
measure() {
  "${within[@]}" examples/router/measure --time=500ms "$@" "${flags[@]}" | tail -n "+$line"
  line=2  # the header once
}
for part in "${parts[@]}"; do
  case $part in
  tables)
    for table in real 1000000; do
      for trace in match zipf; do measure --table=$table --trace=$trace; done
    done
    measure --lpm=1 --tx=0
    ;;
  rpc) measure --fibs=constant,local,rpc --burst=64 --packets=2500 --latency ;;
  changes) measure --fibs=local,rpc --burst=64 --packets=2500 --changes=10000 ;;
  restart)
    # The server loads a table meanwhile. Of so many flows the last answers are kept.
    measure --fibs=local,rpc --burst=64 --addresses=1000 --restart --time=6s --repeats=3
    ;;
  stages) measure --fibs=constant,local,dpdk --stages ;;
  veth)
    if [[ $EUID != 0 ]]; then
      echo "SKIP veth: root is needed" >&2
      continue
    fi
    space=planb-measure-$$
    trap 'ip netns del "$space"' EXIT
    ip netns add "$space"
    within=(ip netns exec "$space")
    # The kernel there says and answers nothing.
    "${within[@]}" sysctl -qw net.ipv6.conf.{all,default}.disable_ipv6=1
    ip -n "$space" link add near type veth peer name far
    for end in near far; do ip -n "$space" link set "$end" up; done
    measure --fibs=constant,local,dpdk,rpc --wire=near,far --packets=400 --stages
    ip netns del "$space"
    trap - EXIT
    within=()
    ;;
  *)
    echo "measure.sh: no part $part" >&2
    exit 2
    ;;
  esac
done
