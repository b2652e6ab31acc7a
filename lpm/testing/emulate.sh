#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# The engine's tests on processors unlike this one, emulated by qemu: with the
# kernels that their instruction sets allow and no others.
#
#   lpm/testing/emulate.sh [scalar|avx2|arm64]...    all three unless named
#
# scalar: the first x86-64 processor. It ends a program at an instruction of
#         AVX2. The server runs on it, too, and answers.
# avx2:   one with AVX2 and without AVX-512.
# arm64:  cross-compiled (third_party/arm64.sh). The server answers there, too.
#
# Five to ten minutes a machine on two cores. Afterwards bazel-bin is what the
# last one runs.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

machines=("$@")
((${#machines[@]})) || machines=(scalar avx2 arm64)

work=$(mktemp -d /tmp/planb_emulate.XXXXXX)
server=0
finish() {
  local status=$?
  ((server == 0)) || kill -KILL "$server" 2>/dev/null || true
  ((status == 0)) || cat "$work/server.log" 2>/dev/null || true
  rm -r "$work"
}
trap finish EXIT

# Not emulated, as no kernel takes part: what counts bytes of memory, and
# millions of changes to small worlds. Nor, at a minute each, the tables of
# millions of routes. And copying takes other instructions on each processor, of
# which an update has many.
tests=(//lpm/... -//lpm/fib:fib_bound_test -//lpm/fib:fib_memory_test)
filter='-*OneBit*:*TwoBits*:*ThreeBits*:FibHuge.*:GoldenTest.Updates'

# For x86-64 neither all tables of the small worlds (five minutes), nor with
# AVX2, emulated at a tenth of the speed, the random and the worst tables: the
# same kernels see them on this machine. And qemu's masked loads of AVX2 read all
# of the vector, also on a forbidden page.
not_x86=(-//lpm/fib:fib_exhaustive_test)
not_avx2=("${not_x86[@]}" -//lpm/fib:fib_adversarial_test
  -//lpm/fib:fib_random_test)
filter_avx2=$filter:*CountsBetweenForbiddenPages/IPv6*:*EveryAlignment/IPv6*

# run_tests KERNELS RUN_UNDER FILTER OPTION... [-- -TARGET...]: checks that the
# machine has these kernels, and runs the tests on it.
run_tests() {
  local kernels=$1 under=$2 filter=$3 options=() found
  shift 3
  while (($#)) && [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  bazel build --noshow_progress "${options[@]}" //lpm/kernels:kernel_test
  # shellcheck disable=SC2086
  found=$($under bazel-bin/lpm/kernels/kernel_test --gtest_list_tests |
    sed -n 's|^ *EveryCountOfLanes/\([a-z0-9]*\)_IPv6_2 .*|\1|p' | paste -sd,)
  echo "kernels: $found"
  [[ $found == "$kernels" ]]
  bazel test --noshow_progress --run_under="$under" --test_filter="$filter" \
    --test_timeout=600,1800,1800,3600 "${options[@]}" -- "${tests[@]}" "${@:2}"
}

# Or the emulator lets pass what the processor would not.
ends_at_avx2() {
  local status=0
  g++ -x c++ -o "$work/avx2" - <<<'int main() {
    __asm__("vpaddd %ymm0, %ymm0, %ymm0");
  }'
  "$@" "$work/avx2" 2>/dev/null || status=$?
  ((status == 128 + 4))  # SIGILL
}

# serve KERNELS COMMAND... [-- OPTION...]: the server at work, built with Bazel's
# options and started with the command before it; every boundary of a table, asked
# for from outside.
serve() {
  local ctl=$work/planbctl kernel=$1 command=()
  shift
  while (($#)) && [[ $1 != -- ]]; do
    command+=("$1")
    shift
  done
  bazel build --noshow_progress //client/planbctl
  cp -Lf bazel-bin/client/planbctl/planbctl "$work"
  bazel build --noshow_progress "${@:2}" //server:planb_server
  cp -Lf bazel-bin/server/planb_server "$work"
  "$ctl" generate --routes=20000 --ipv4=20000 "$work/table.txt"
  "${command[@]}" "$work/planb_server" --routes="$work/table.txt" --store=none \
    --listen="unix://$work/planb.sock" --metrics_address=127.0.0.1:0 \
    2>"$work/server.log" &
  server=$!
  export PLANB_SERVER=unix://$work/planb.sock
  for _ in $(seq 600); do
    grep -q ' serving$' "$work/server.log" && break
    kill -0 "$server"
    sleep 0.1
  done
  "$ctl" --timeout=60s status | grep "^kernel  *$kernel\$"
  "$ctl" --timeout=60s verify "$work/table.txt"
  kill -TERM "$server"
  wait "$server"
  server=0
}

for machine in "${machines[@]}"; do
  echo "== $machine"
  case $machine in
    scalar)
      ends_at_avx2 qemu-x86_64 -cpu Opteron_G1
      run_tests scalar "qemu-x86_64 -cpu Opteron_G1" "$filter" -- "${not_x86[@]}"
      serve "scalar (of scalar)" qemu-x86_64 -cpu Opteron_G1
      ;;
    avx2)
      run_tests avx2,scalar "qemu-x86_64 -cpu Haswell" "$filter_avx2" \
        -- "${not_avx2[@]}"
      ;;
    arm64)
      folder=$(third_party/arm64.sh folder)
      lines=$(third_party/arm64.sh options)
      mapfile -t options <<<"$lines"
      run_tests neon,scalar "qemu-aarch64 -L $folder" "$filter" "${options[@]}"
      serve "neon (of neon, scalar)" qemu-aarch64 -L "$folder" -- "${options[@]}"
      ;;
    *)
      echo "no machine \"$machine\"" >&2
      exit 2
      ;;
  esac
done
