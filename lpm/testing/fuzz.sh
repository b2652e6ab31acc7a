#!/bin/sh
# Fuzzes updates of the engine with clang's libFuzzer, ASan and UBSan.
#
# Usage: lpm/testing/fuzz.sh [SECONDS [CORPUS_DIR]]
#
# Starts from history_corpus/ and keeps what it finds in CORPUS_DIR (default: a
# new directory under /tmp). A wrong answer or a crash leaves its input in the
# current directory and exits non-zero; add that input to history_corpus once
# it is fixed. To let the corpus in the tree grow by what a long run found:
#   lpm/testing/fuzz.sh 3600 /tmp/found
#   /tmp/found.bin -merge=1 -use_counters=0 -max_len=250 \
#       lpm/testing/history_corpus /tmp/found
# Needs Debian's clang-14 and libclang-rt-14-dev.
set -eu
seconds=${1:-60}
corpus=${2:-$(mktemp -d /tmp/planb_fuzz.XXXXXX)}
clang=${CLANG:-clang++-14}
root=$(cd "$(dirname "$0")/../.." && pwd)

if ! command -v "$clang" > /dev/null; then
  echo "fuzz.sh: $clang is missing: apt-get install clang-14" \
      "libclang-rt-14-dev" >&2
  exit 1
fi
binary=$corpus.bin
export root clang objects="$corpus.objects"
mkdir -p "$corpus" "$objects"

{
  find "$root/lpm" -maxdepth 1 -name '*.cc' ! -name '*_test.cc'
  for name in history_fuzzer hard_prefixes live_table oracle packed_probes \
      probes random_routes reference; do
    echo "$root/lpm/testing/$name.cc"
  done
} | xargs -P "$(nproc)" -n 1 sh -euc '
  object=$objects/$(basename "$1" .cc).o
  # The vector kernels ask for their instruction sets in a way that is for
  # gcc alone; they are used as they ship, all else is instrumented.
  if grep -q "pragma GCC target" "$1"; then
    exec g++ -std=c++20 -O3 -g1 -I "$root" -c "$1" -o "$object"
  fi
  exec "$clang" -std=c++20 -O1 -g1 -fno-omit-frame-pointer \
      -fsanitize=fuzzer-no-link,address,undefined \
      -fno-sanitize-recover=undefined -I "$root" -c "$1" -o "$object"
' compile
"$clang" -fsanitize=fuzzer,address,undefined "$objects"/*.o -o "$binary" \
    -labsl_status -labsl_statusor -labsl_cord -labsl_strings \
    -labsl_strings_internal -labsl_raw_hash_set -labsl_hash \
    -labsl_low_level_hash -labsl_city -labsl_int128 \
    -labsl_raw_logging_internal -labsl_throw_delegate -labsl_base
exec "$binary" -max_total_time="$seconds" -max_len=2048 -timeout=30 \
    -rss_limit_mb=4096 -print_final_stats=1 "$corpus" \
    "$root/lpm/testing/history_corpus"
