#!/bin/sh
# SPDX-License-Identifier: Apache-2.0

# Fuzzes the parsers of proto/wire against the generated ones, with clang's
# libFuzzer, ASan and UBSan.
#
# Usage: proto/wire/fuzz.sh [SECONDS [CORPUS_DIR]]
#
# third_party/libfuzzer.sh says what it needs and how the corpus grows.
# Merge with -max_len=100: tests replay the corpus, so its inputs are short.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=$root/proto/wire/testing/wire_corpus.txt
max_len=600
libraries='-lprotobuf -labsl_strings -labsl_strings_internal -labsl_int128
    -labsl_raw_logging_internal -labsl_throw_delegate -labsl_base'

sources() {
  /usr/bin/protoc -I "$root/proto" -I "$root/third_party/googleapis" \
      -I /usr/include --cpp_out="$objects" planb/v1/route_lookup.proto \
      planb/v1/types.proto
  find "$objects" -name '*.pb.cc'
  find "$root/proto/wire" -maxdepth 1 -name '*.cc' ! -name '*_test.cc'
  echo "$root/proto/wire/testing/readings.cc"
  echo "$root/proto/wire/testing/wire_fuzzer.cc"
}

. "$root/third_party/libfuzzer.sh"
