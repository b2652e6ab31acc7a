#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Fuzzes the readers of files with clang's libFuzzer, ASan and UBSan.
#
# Usage: lpm/io/fuzz.sh [SECONDS [CORPUS_DIR]]
#
# third_party/libfuzzer.sh says what it needs and how the corpus grows.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=$root/lpm/io/testdata/corpus.txt
max_len=8192
libraries='-labsl_status -labsl_statusor -labsl_cord -labsl_strings
    -labsl_strings_internal -labsl_raw_hash_set -labsl_hash
    -labsl_low_level_hash -labsl_city -labsl_int128
    -labsl_raw_logging_internal -labsl_time -labsl_str_format_internal
    -labsl_throw_delegate -labsl_base -lxxhash -lz -lbz2'

sources() {
  find "$root/lpm/io" -maxdepth 1 -name '*.cc' ! -name '*_test.cc'
  for name in io/testing/bytes io/testing/reader_fuzzer address prefix; do
    echo "$root/lpm/$name.cc"
  done
}

. "$root/third_party/libfuzzer.sh"
