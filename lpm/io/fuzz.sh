#!/bin/sh
# Fuzzes the readers with clang's libFuzzer, ASan and UBSan.
#
# Usage: lpm/io/fuzz.sh [SECONDS [CORPUS_DIR [TARGET]]]
#
# TARGET is route_file (the default) or another that has a TARGET_fuzz.cc.
# Starts from testdata/corpus.txt and keeps what it finds in CORPUS_DIR (default: a new
# directory under /tmp). A crash leaves its input in the current directory and
# exits non-zero; third_party/fuzz_corpus.sh adds that input to the corpus once
# it is fixed. Needs Debian's clang-14 and libclang-rt-14-dev.
set -eu
seconds=${1:-60}
corpus=${2:-$(mktemp -d /tmp/planb_fuzz.XXXXXX)}
target=${3:-route_file}
clang=${CLANG:-clang++-14}
root=$(cd "$(dirname "$0")/../.." && pwd)

if ! command -v "$clang" > /dev/null; then
  echo "fuzz.sh: $clang is missing: apt-get install clang-14" \
      "libclang-rt-14-dev" >&2
  exit 1
fi
mkdir -p "$corpus"
"$root/third_party/fuzz_corpus.sh" unpack "$root/lpm/io/testdata/corpus.txt" \
    "$corpus.seeds"
binary=$corpus.bin
sources=$(find "$root/lpm/io" "$root/lpm/io/testing" -maxdepth 1 -name '*.cc' \
    ! -name '*_test.cc' ! -name '*_main.cc' ! -name '*_fuzz.cc')
# shellcheck disable=SC2086  # the list of sources is one
"$clang" -std=c++20 -O1 -g -fno-omit-frame-pointer \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -I "$root" $sources "$root/lpm/io/${target}_fuzz.cc" \
    "$root/lpm/address.cc" "$root/lpm/prefix.cc" \
    -o "$binary" -labsl_status -labsl_statusor -labsl_cord -labsl_strings \
    -labsl_strings_internal -labsl_raw_hash_set -labsl_hash \
    -labsl_low_level_hash -labsl_city -labsl_int128 \
    -labsl_raw_logging_internal -labsl_time -labsl_str_format_internal \
    -labsl_throw_delegate -labsl_base -lxxhash -lz -lbz2
exec "$binary" -max_total_time="$seconds" -max_len=8192 -timeout=30 \
    -rss_limit_mb=2048 "$corpus" "$corpus.seeds"
