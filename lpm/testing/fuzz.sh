#!/bin/sh
# Fuzzes updates of the engine with clang's libFuzzer, ASan and UBSan.
#
# Usage: lpm/testing/fuzz.sh [SECONDS [CORPUS_DIR]]
#
# third_party/libfuzzer.sh says what it does and needs. Add the input that a
# wrong answer or a crash leaves to history_corpus once it is fixed. To let the
# corpus in the tree grow by what a long run found:
#   lpm/testing/fuzz.sh 3600 /tmp/found
#   /tmp/found.bin -merge=1 -use_counters=0 -max_len=250 \
#       lpm/testing/history_corpus /tmp/found
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=$root/lpm/testing/history_corpus
max_len=2048
libraries='-labsl_status -labsl_statusor -labsl_cord -labsl_strings
    -labsl_strings_internal -labsl_raw_hash_set -labsl_hash
    -labsl_low_level_hash -labsl_city -labsl_int128
    -labsl_raw_logging_internal -labsl_throw_delegate -labsl_base'

sources() {
  find "$root/lpm" -maxdepth 1 -name '*.cc' ! -name '*_test.cc'
  for name in forms history_fuzzer hard_prefixes live_table oracle \
      packed_probes probes random_routes reference right_answers; do
    echo "$root/lpm/testing/$name.cc"
  done
}

. "$root/third_party/libfuzzer.sh"
