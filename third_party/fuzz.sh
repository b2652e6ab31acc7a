#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0

# Fuzzes with clang's libFuzzer, ASan and UBSan; the feed with Go's fuzzing.
#
#   third_party/fuzz.sh updates|readers|wire|packets|feed [SECONDS [CORPUS_DIR]]
#
# updates: histories of changes and lookups of the engine; readers: files of routes;
# wire: BatchLookup against the generated parsers; packets: the router's frames. Starts from
# the seeds in the tree, and keeps what it finds in CORPUS_DIR (default: a new folder). A
# finding leaves its input in CORPUS_DIR.found and the script fails; with the fix, add the
# input:
#   third_party/fuzz_corpus.sh pack INPUT >> SEEDS
# To add the inputs that reached new code in a long run:
#   third_party/fuzz.sh updates 3600 /tmp/found
#   /tmp/found.bin -merge=1 -use_counters=0 /tmp/found.seeds /tmp/found
#   third_party/fuzz_corpus.sh pack /tmp/found.seeds/* > SEEDS
# Tests replay the seeds, so these are short: merge with -max_len=250 (updates) or
# -max_len=100 (wire, packets).
#
# feed: all targets of the module beside each other, each on one processor. A finding leaves
# its input in testdata/fuzz of its package, where the tests replay it.
set -euo pipefail
case ${1:-} in
  updates) target=lpm/testing/history_fuzzer seeds=lpm/testing/history_corpus.txt max=2048 ;;
  readers) target=lpm/io/testing/reader_fuzzer seeds=lpm/io/testdata/corpus.txt max=8192 ;;
  wire) target=proto/wire/testing/wire_fuzzer seeds=proto/wire/testing/wire_corpus.txt max=600 ;;
  packets) target=examples/router/packet_fuzzer seeds=examples/router/packet_corpus.txt max=1600 ;;
  feed) ;;
  *)
    sed -n '6s/^# *//p' "$0" >&2
    exit 2
    ;;
esac
seconds=${2:-60}
corpus=$(realpath -m "${3:-$(mktemp -d /tmp/planb_fuzz.XXXXXX)}")
cd "$(dirname "$0")/.."
if [[ $1 == feed ]]; then
  GO=$(deploy/go_tool.sh go)
  export GO GOFLAGS=-mod=readonly GOTOOLCHAIN=local
  client/go/generate.sh
  cd feed
  targets=$(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |')
  # One after another, so that what they share is compiled once.
  while read -r folder target; do
    "$GO" test -c -fuzz="^$target\$" -o "$corpus.$target" "$folder"
  done <<< "$targets"
  running=()
  while read -r folder target; do
    (cd "$folder" && exec "$corpus.$target" -test.run='^$' -test.fuzz="^$target\$" \
      -test.fuzztime="${seconds}s" -test.fuzzminimizetime=1s -test.parallel=1 \
      -test.fuzzcachedir="$corpus") &
    running+=($!)
  done <<< "$targets"
  status=0
  for process in "${running[@]}"; do wait "$process" || status=1; done
  exit "$status"
fi
bazel build --noshow_progress --config=asan "//${target%/*}:${target##*/}"
cp -f "bazel-bin/$target" "$corpus.bin"
mkdir -p "$corpus" "$corpus.found"
third_party/fuzz_corpus.sh unpack "$seeds" "$corpus.seeds"
cd "$corpus.found"
exec "$corpus.bin" -max_total_time="$seconds" -max_len="$max" -timeout=30 \
  -rss_limit_mb=4096 -print_final_stats=1 "$corpus" "$corpus.seeds"
