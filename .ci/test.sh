#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# What every change has to pass: format, licences, the tests as shipped, under
# ASan+UBSan and under TSan, fuzzers, manifests, the edge. Ends with a count.
#
#   .ci/test.sh          what `make test` runs
#   .ci/test.sh --long   what `make test-long` runs: also the image, the pod, load,
#                        upgrade and soak, Prometheus, emulated processors,
#                        grpcurl, more rounds of kills, crashes, storms and fuzzing
#
# PLANB_CONFIGS, PLANB_FUZZ and PLANB_DEPLOY narrow it down while working, as in
#   PLANB_CONFIGS=default PLANB_FUZZ= PLANB_DEPLOY= .ci/test.sh
set -euo pipefail
cd "$(dirname "$0")/.."

long=''
[[ ${1:-} != --long ]] || long=yes
configs=${PLANB_CONFIGS-default asan tsan}
fuzz_seconds=25
rounds=()
# Under ASan and UBSan: what parses bytes, shares memory or keeps state. The whole
# server, the client and exhaustive worlds take half an hour more: in the long run.
asan_targets=(//lpm/... //base/... //proto/... //server/base/... //server/table/...
  //server/store/... //server/net:admission_test)
asan_filter=(--test_tag_filters=-long_asan --build_tests_only
  --build_tag_filters=-long_asan)
if [[ -n $long ]]; then
  fuzz_seconds=300
  # What is shipped; what only measures it is not.
  asan_targets=(//... -//benchmarks/...)
  asan_filter=()
  rounds=(--test_env=PLANB_KILL_ROUNDS=200 --test_env=PLANB_STORE_CRASHES=200
    --test_env=PLANB_STORM_SECONDS=120 --test_timeout=900,1800,3600,7200)
fi
deploy=${PLANB_DEPLOY-yes}
fuzz=${PLANB_FUZZ-yes}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

# The engine, the RIB and publication: all that shares state between threads and
# can be compiled for TSan as a whole. (gRPC and abseil come uninstrumented from
# packages; TSan would misread their locks. std::mutex it understands.)
tsan_targets=(
  //lpm/fib:fib_threads_test
  //server/table:rib_test
  //server/table:snapshot_test
  //server/table:table_test
  //server/store:sqlite_store_test
  //server:metrics_test
  //server/base:base_test
  //lpm/routes:routes_threads_test
  //client:coalescing_lookup_test
  //client:local_routes_test
)

# step NAME COMMAND...: counts one more passed or failed.
step() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name"
  fi
}

# bazel-bin is whatever was built last: build anew before using it.
site() {
  bazel build --noshow_progress //server:planb_server //client:planbctl &&
    docs/site.py "$(mktemp -d)"
}

ghz_smoke() {
  bazel build --noshow_progress //server:planb_server &&
    benchmarks/serving/ghz/smoke.sh bazel-bin/server/planb_server &&
    benchmarks/serving/ghz/run.sh bazel-bin/server/planb_server "$(mktemp -d)" --short
}

# The server defines no name that libc defines: its libraries get libc's own.
no_name_of_libc() {
  bazel build --noshow_progress //server:planb_server || return 1
  local libc names
  libc=$(ldd bazel-bin/server/planb_server | awk '$1 == "libc.so.6" {print $3}')
  names=$(comm -12 \
    <(nm --defined-only bazel-bin/server/planb_server | awk '{print $3}' | sort -u) \
    <(nm -D --defined-only "$libc" | awk '{sub(/@.*/, "", $3); print $3}' | sort -u))
  [[ -z $names ]] || {
    echo "planb_server defines names of libc:" $names
    return 1
  }
}

# fuzz FOLDER: what no one thought of, for a short while.
fuzz() {
  local work status=0
  work=$(mktemp -d /tmp/planb_fuzz.XXXXXX)
  (cd "$work" && "$OLDPWD/$1/fuzz.sh" "$fuzz_seconds" "$work/corpus" \
    >"$work/log" 2>&1) || status=$?
  if ((status == 0)); then
    grep -E '^Done' "$work/log"
    rm -r "$work"
  else
    tail -n 50 "$work/log"
    echo "the input that did it is in $work"
  fi
  return "$status"
}

# The deployment's own tests; a step skipped there is a step skipped here. The
# short ones take the programs as the tests have them, the long ones as shipped.
deployment() {
  local status=0 bin
  if [[ -n $long ]]; then
    deploy/test.sh >"$log" 2>&1 || status=$?
  else
    bin=$(mktemp -d /tmp/planb_bin.XXXXXX)
    bazel build --noshow_progress //server:planb_server \
      //server/testing:hostile_attacker //client/planbctl &&
      cp -L bazel-bin/server/{planb_server,testing/hostile_attacker} \
        bazel-bin/client/planbctl/planbctl "$bin" &&
      deploy/test.sh --short "$bin" >"$log" 2>&1 || status=$?
    rm -r "$bin"
  fi
  cat "$log"
  skipped=$((skipped + $(grep -cE '^[a-z]+ +[0-9]+ s +SKIP' "$log" || true)))
  return "$status"
}

# tests NAME ARGUMENTS...: runs Bazel tests and counts each.
tests() {
  local name=$1 status=0
  shift
  echo "== $name"
  bazel test --noshow_progress --keep_going "$@" >"$log" 2>&1 || status=$?
  grep -E '^//.* (PASSED|FAILED|TIMEOUT|FLAKY|NO STATUS)' "$log" || true
  passed=$((passed + $(grep -cE '^//.* PASSED' "$log" || true)))
  local bad
  bad=$(grep -cE '^//.* (FAILED|TIMEOUT|FLAKY|NO STATUS)' "$log" || true)
  if ((status != 0)); then
    cat "$log"
    failed=$((failed + (bad > 0 ? bad : 1)))
  fi
  # Cases within the programs that passed, such as those without their data.
  local program cases
  for program in $(grep -oE '^//\S+' "$log" | sort -u); do
    program=${program#//}
    cases=$(find -L "bazel-testlogs/${program/://}" -name test.xml 2>/dev/null |
      xargs -r cat | grep -c 'result="skipped"' || true)
    ((${cases:-0} == 0)) || echo "//$program: $cases cases skipped"
    skipped=$((skipped + ${cases:-0}))
  done
}

step "format" .ci/format.sh
step "licences" .ci/spdx.py
step "arrows between rooms" .ci/arrows.py
step "references" .ci/references.py
step "contract" .ci/contract.py
step "breaks of the contract" .ci/contract_test.py
step "clang-tidy" .ci/tidy.py
for config in $configs; do
  case $config in
    default) tests "tests" "${rounds[@]}" //... ;;
    asan)
      tests "tests under ASan and UBSan" --config=asan "${asan_filter[@]}" \
        -- "${asan_targets[@]}"
      ;;
    tsan) tests "tests under TSan" --config=tsan "${tsan_targets[@]}" ;;
  esac
done
step "names of libc" no_name_of_libc
if [[ -n $fuzz ]]; then
  if command -v clang++-14 >/dev/null; then
    step "fuzz the updates" fuzz lpm/testing
    step "fuzz the readers of files" fuzz lpm/io
    step "fuzz the wire format" fuzz proto/wire
  else
    echo "no clang++-14: the fuzzer is skipped"
    skipped=$((skipped + 1))
  fi
fi
if [[ -n $deploy ]]; then
  step "compile commands" third_party/compile_commands.py
  step "manifests and the edge" deployment
  step "traces and exemplars" deploy/monitoring/otlp_test.py
  step "the Python package" client/python/test.sh
  step "the Go module" client/go/test.sh
  step "the documentation as a site" site
  step "the commands of the documents" docs/commands_test.py ${long:+--long}
fi
if [[ -n $long && -n $deploy ]]; then
  step "build of the benchmarks, optimized" \
    bazel build --noshow_progress --config=opt //benchmarks/...
  step "emulated processors" lpm/testing/emulate.sh
  step "load test by ghz" ghz_smoke
fi

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
