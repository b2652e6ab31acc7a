#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Fuzzes updates of the engine with clang's libFuzzer, ASan and UBSan.
#
# Usage: lpm/testing/fuzz.sh [SECONDS [CORPUS_DIR]]
#
# third_party/libfuzzer.sh says what it needs and how the corpus grows.
# Merge with -max_len=250: the test replays the corpus, so inputs stay short.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=$root/lpm/testing/history_corpus.txt
max_len=2048
libraries='-labsl_status -labsl_statusor -labsl_cord -labsl_strings
    -labsl_strings_internal -labsl_raw_hash_set -labsl_hash
    -labsl_low_level_hash -labsl_city -labsl_int128
    -labsl_raw_logging_internal -labsl_throw_delegate -labsl_base -lgtest
    -lxxhash'

sources() {
  find "$root/lpm" "$root/lpm/fib" "$root/lpm/kernels" "$root/lpm/routes" \
    -maxdepth 1 -name '*.cc' ! -name '*_test.cc'
  for name in fib_check history_fuzzer oracle random_tables; do
    echo "$root/lpm/testing/$name.cc"
  done
}

. "$root/third_party/libfuzzer.sh"
